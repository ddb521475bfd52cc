import AppStore
import Calls
import Facts
import Pricing
import ServiceKit

/// Calls of Extend Subscription Renewal Dates for All Active Subscribers. A call that the App Store accepted stays
/// open. Its status is checked, perhaps for hours, until the App Store says that it is complete.
struct MassExtensionKind: CallKind {
    typealias Claimed = Never

    let kind = StoreCall.Kind.massExtension
    let calls: any ExtensionCalls
    let permitSource: CallPermitSource
    let policy: CallPolicy
    /// The time between two checks of a running extension, in real time.
    let checkEvery: Duration

    var checkPermitSource: CallPermitSource { permitSource }

    struct Intent: Codable {
        var productID: String
        var storefronts: [String]?
        var requestIdentifier: String
        var days: Int
        var reason: Int
        /// Whether an earlier call under this identifier may have been accepted and so have caused a refusal.
        var isRepeated: Bool
    }

    func gate(now: Int64) -> CallGate {
        MassExtensionQueries.gate(endpoint: permitSource.endpoint, now: now)
    }

    func subscriptions(of call: StoreCall) -> [String] { [] }

    func send(
        _ call: StoreCall, _ claimed: Never?, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        guard let intent = call.said(Intent.self) else { return .unreadableIntent }
        let request: MassExtensionRequest
        do {
            request = try MassExtensionRequest(
                ExtensionTerms(days: intent.days, stored: intent.reason),
                productID: intent.productID, storefronts: intent.storefronts,
                requestIdentifier: intent.requestIdentifier)
        } catch {
            return .badTerms("\(error)")
        }
        return StoreAnswer(await calls.extendAll(request, leavingBefore: leavingBefore)) { _ in [] }
    }

    func check(_ call: StoreCall) async -> StoreAnswer {
        guard let intent = call.said(Intent.self) else { return .unreadableIntent }
        let outcome = await calls.extensionStatus(
            productID: intent.productID, requestIdentifier: intent.requestIdentifier)
        return StoreAnswer(outcome) { StoreWords(massExtension: $0) }
    }

    /// What the App Store answered, by call id: that the extension runs, or that it is complete, with its numbers.
    typealias Scene = [String: StoreWords]

    func lock(
        _ attempts: [Attempt<Self>], on connection: isolated DatabaseConnection
    ) throws -> (Scene, Set<String>) {
        ([:], try connection.ask(StoreCallQueries.holding(attempts.map(\.call))))
    }

    func fold(
        _ attempts: [Attempt<Self>], into scene: inout Scene,
        on connection: isolated DatabaseConnection
    ) throws {
        for attempt in attempts {
            if case .answered(let words, _) = attempt.answer { scene[attempt.call.callID] = words }
        }
    }

    func resolve(_ attempt: Attempt<Self>, in scene: Scene) -> Resolution {
        let call = attempt.call
        switch attempt.answer {
        case .answered(let words, _):
            // Without numbers the extension was accepted and runs.
            return words.massExtension?.isComplete == true
                ? .applied(Resolution.Proof())
                : .open(
                    .check, reason: "running", errorCode: ResolutionTable.answeredCode,
                    after: .fixed(checkEvery))
        case .refused(let refusal, _)
        where call.step == .check && refusal.meaning != .haltService:
            return Int64(refusal.code) == Self.notFoundCode
                ? notFound(call, refusal) : checkLater(refusal, errorCode: call.errorCode)
        case .refused, .throttled, .unknown, .notSent:
            var policy = policy
            policy.checksRefusals = call.said(Intent.self)?.isRepeated ?? true
            return ResolutionTable(call, policy, attempt.verdict).resolve(attempt.answer)
        }
    }

    /// Resolves a check after which the App Store does not know the extension.
    private func notFound(_ call: StoreCall, _ refusal: StoreRefusal) -> Resolution {
        switch call.errorCode {
        case nil: .open(.send, reason: refusal.name, errorCode: nil)
        // It was accepted, but its status is not found. That may still change, so it is checked until a person abandons
        // it.
        case ResolutionTable.answeredCode, Self.notFoundCode:
            checkLater(refusal, errorCode: Self.notFoundCode)
        // It was never accepted as far as anybody knows, and a later attempt was refused. An earlier one may still be on
        // its way.
        case .some(let code):
            ResolutionTable(call, policy, nil).isCheckedEnough
                ? .refused(
                    StoreRefusal(
                        code: Int(code), name: refusedOnRetry, message: refusal.message,
                        meaning: .reject), isDoubtful: true)
                : .open(.check, reason: "refused with \(code), not seen yet", errorCode: code)
        }
    }

    private func checkLater(_ refusal: StoreRefusal, errorCode: Int64?) -> Resolution {
        .open(
            .check, reason: APIErrorCode(rawValue: refusal.code).meaning ?? refusal.codeAndName,
            errorCode: errorCode, after: .fixed(checkEvery))
    }

    private static let notFoundCode = Int64(APIErrorCode.statusRequestNotFound.rawValue)

    func write(
        _ endings: [ResolvedCall], in scene: Scene?, at now: Instant
    ) throws -> [DatabaseStatement] {
        endings.compactMap { ending in
            guard let id = ending.call.carries.first else { return nil }
            let words = scene?[ending.call.callID]
            switch ending.resolution {
            case .applied:
                let status = words?.massExtension
                return MassExtensionQueries.complete(
                    id, at: (status?.completedAt ?? now).milliseconds, succeeded: status?.succeeded,
                    failed: status?.failed)
            case .refused(let refusal, _):
                return MassExtensionQueries.refuse(
                    id, code: refusal.storedName, detail: refusal.storedMessage)
            case .released(let release):
                return MassExtensionQueries.requeue(
                    id, detail: release.reason, nextAt: ending.nextAt)
            case .open where words != nil: return MassExtensionQueries.run(id)
            case .open(_, let reason, let errorCode, _):
                return MassExtensionQueries.leaveUnknown(
                    id,
                    code: errorCode == Self.notFoundCode
                        ? APIErrorCode.statusRequestNotFound.name : nil, detail: reason)
            }
        }
    }
}
