/// The first failure of several pieces of work of which each is tried, so that what keeps one of them, as a row that
/// somebody else has locked, does not keep the others.
package struct FirstFailure {
    private var error: DatabaseServerError?

    package init() {}

    /// Does one piece of the work. Throws where the database is away, since the others would fail as well.
    package mutating func trying(_ work: () async throws -> Void) async throws {
        do {
            try await work()
        } catch let failure as DatabaseServerError where !failure.isConnectionLoss {
            error = error ?? failure
        }
    }

    /// Throws the first failure, if there was any.
    package func rethrow() throws {
        if let error { throw error }
    }
}
