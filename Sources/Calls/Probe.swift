package import Facts

/// A call that asks for all others whether the App Store takes them again.
package enum Probe: Hashable, Sendable {
    case service(haltedFor: String)
    /// It probes for calls of its own kind.
    case kind
    case batch(String)

    /// The probe of a claim while the service, or the kind of call, is halted; nil where neither is.
    package init?(_ controls: ServiceControlQueries.Everything, _ kind: StoreCall.Kind) {
        guard controls.isHalted(kind) else { return nil }
        self =
            controls.isServiceHalted(kind)
            ? .service(haltedFor: controls.haltedReason ?? "") : .kind
    }

    package var batchID: String? {
        switch self {
        case .service, .kind: nil
        case .batch(let id): id
        }
    }
}
