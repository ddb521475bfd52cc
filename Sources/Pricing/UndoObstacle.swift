/// Why a change can't be undone. The database finds it (`undo_obstacle`); the words are here.
package enum UndoObstacle: String, Hashable, Sendable, CaseIterable {
    case isAnUndo = "is_an_undo"
    case notSent = "not_sent"
    case inFlight = "in_flight"
    case alreadyEffective = "already_effective"
    case alreadyCommunicated = "already_communicated"
    case hasEnded = "has_ended"
    case undoUnderWay = "undo_under_way"

    /// What is wrong. `state` is that of the change; `toldAt` is when Apple tells the customer, or stops accepting
    /// decreases.
    package func meaning(state: String, toldAt: Instant?) -> String {
        switch self {
        case .isAnUndo: "it takes back another change itself"
        case .notSent: "it is \(state): Apple does not have it yet"
        case .inFlight: "its call is \(state)"
        case .alreadyEffective: "the new price was charged"
        case .alreadyCommunicated where state == "scheduled":
            "Apple can't be stopped" + (toldAt.map { " since \($0.text)" } ?? "")
        case .alreadyCommunicated: "the customer was told; it is \(state)"
        case .hasEnded: "it has ended: \(state)"
        case .undoUnderWay: "an undo of it is under way"
        }
    }

    package var remedy: String {
        switch self {
        case .isAnUndo: "submit the price that is wanted"
        case .notSent: "withdraw it with repricer abort"
        case .inFlight: "try again when it is scheduled"
        case .alreadyEffective: "submit the old price as a new change"
        case .alreadyCommunicated: "wait until it took effect, then submit the old price"
        case .hasEnded: "nothing is to be undone"
        case .undoUnderWay: "approve or abort that one"
        }
    }
}
