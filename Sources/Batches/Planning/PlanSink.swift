package import Pricing

/// A piece of a batch with its verdicts. `rows` has one for each of `entries`, in the order of the file.
package struct PlannedPiece: Sendable {
    package let entries: [BatchFileEntry]
    package let rows: [PlanRow]
    /// Rows of later waves as they would be without waves, by their index in `rows`. The hash of the plan covers these,
    /// because it does not depend on waves.
    package let withoutWaves: [Int: PlanRow]
    package let overtaken: [Overtaken]

    /// An open and unsent increase of another batch that needs consent because a row takes effect before it, so that it
    /// is the second increase within 12 months.
    package struct Overtaken: Hashable, Sendable {
        package let changeID: String
        /// The line of the row.
        package let line: Int
    }

    package init(
        entries: [BatchFileEntry], rows: [PlanRow], withoutWaves: [Int: PlanRow] = [:],
        overtaken: [Overtaken] = []
    ) {
        self.entries = entries
        self.rows = rows
        self.withoutWaves = withoutWaves
        self.overtaken = overtaken
    }
}

/// Receives a plan. Its pieces are prepared in parallel and taken one by one in the order of the file, so that a plan
/// is never in memory as a whole.
package protocol PlanSink: Sendable {
    associatedtype Prepared: Sendable

    /// The costly part, which runs on any thread and for several pieces at once.
    func prepare(_ piece: PlannedPiece) throws -> Prepared

    /// The part in which order counts: it gets one piece after the other.
    func take(_ prepared: Prepared) async throws
}
