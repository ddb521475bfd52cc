package import Pricing

/// A piece of a batch with its verdicts: `rows` answers `entries` one by one, in the order of the file.
package struct PlannedPiece: Sendable {
    package let entries: [BatchFileEntry]
    package let rows: [PlanRow]

    package init(entries: [BatchFileEntry], rows: [PlanRow]) {
        self.entries = entries
        self.rows = rows
    }
}

/// What becomes of a plan. Its pieces are prepared side by side and taken one by one in the order of the file, so
/// that no plan is ever in memory as a whole.
package protocol PlanSink: Sendable {
    associatedtype Prepared: Sendable

    /// The costly part: runs on any thread, for several pieces at once.
    func prepare(_ piece: PlannedPiece) throws -> Prepared

    /// The part where order counts: one piece after the other.
    func take(_ prepared: Prepared) async throws
}
