package import Pricing

/// A piece of a batch with its verdicts. `rows` has one for each of `entries`, in the order of the file.
package struct PlannedPiece: Sendable {
    package let entries: [BatchFileEntry]
    package let rows: [PlanRow]
    /// The rows that wait for a later wave as they would be without it, by their places in `rows`. They are what the
    /// hash of the plan covers, which says nothing of waves.
    package let withoutWaves: [Int: PlanRow]
    package let overtaken: [Overtaken]

    /// An open and unsent increase of another batch that needs consent because a row takes effect before it: within
    /// 12 months it would be the second increase.
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

/// Takes a plan. Its pieces are prepared side by side and taken one by one in the order of the file, so that no plan
/// is ever in memory as a whole.
package protocol PlanSink: Sendable {
    associatedtype Prepared: Sendable

    /// The costly part, which runs on any thread and for several pieces at once.
    func prepare(_ piece: PlannedPiece) throws -> Prepared

    /// The part in which order counts: it gets one piece after the other.
    func take(_ prepared: Prepared) async throws
}
