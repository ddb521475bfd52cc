/// The first failure of several pieces of work. Each is tried, so that what stops one of them, such as a locked row,
/// does not stop the others.
package struct FirstFailure {
    private var error: DatabaseServerError?

    package init() {}

    /// Does one piece of the work. Throws at once where the database cannot be reached, because the others would fail
    /// as well.
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
