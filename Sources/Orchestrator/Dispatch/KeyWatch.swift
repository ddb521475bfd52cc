import AppStore
import Ledger
import Pricing
import ServiceKit

/// Sees by the answers whether the App Store takes our key: halts the service where it is refused, ends the halt once
/// a call is heard. For calls that carry no price change; those have `CallRound`.
struct KeyWatch: Sendable {
    let halts: Halts
    /// Whether the service had halted when the round began: then its call asks for all.
    let isHalted: Bool

    /// How many calls may go out together.
    func callsMax(_ usual: Int) -> Int { isHalted ? 1 : usual }

    func heed(_ answer: StoreAnswer) async throws {
        try await halts.note(answer)
        if isHalted, answer.isHeard { try await halts.recover() }
    }

    func heed<Value>(_ outcome: CallOutcome<Value>) async throws {
        switch outcome {
        case .refused(let code, _, _):
            switch code.disposition(onRetry: false) {
            case .haltService:
                try await halts.haltService(
                    "\(code.rawValue) \(code.name ?? "code_\(code.rawValue)")")
            case .refresh, .look, .reject, .haltBatch, .haltStorefront: try await recover()
            case .retrySame, .waitUntil: break
            }
        case .answered: try await recover()
        case .throttled, .unknownOutcome, .notSent: break
        }
    }

    private func recover() async throws {
        if isHalted { try await halts.recover() }
    }
}

extension StoreAnswer {
    var refusesKey: Bool {
        switch self {
        case .refused(let refusal, _): refusal.meaning == .haltService
        case .answered, .throttled, .unknown, .notSent: false
        }
    }
}
