package import Facts

/// One call that asks for all others whether the App Store takes them again.
package enum Probe: Hashable, Sendable {
    case service(haltedFor: String)
    /// `haltedBy`: the code that its calls were refused with.
    case batch(String, haltedBy: String)

    /// Of a claim while the service has halted.
    package init?(_ controls: ServiceControlQueries.Everything) {
        guard controls.isHalted else { return nil }
        self = .service(haltedFor: controls.haltedReason ?? "")
    }

    package var batchID: String? {
        switch self {
        case .service: nil
        case .batch(let id, _): id
        }
    }

    /// Refused as those before it.
    func isRepeated(by refusal: StoreRefusal) -> Bool {
        switch self {
        case .service(let reason): reason.hasPrefix("\(refusal.code) ")
        case .batch(_, let code): code == "\(refusal.code)"
        }
    }
}
