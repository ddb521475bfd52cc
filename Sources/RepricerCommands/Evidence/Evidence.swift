import AppStore
import Facts
import ServiceKit

extension Commands {
    private static let uuid = Positional("UUID", "the notification's id, as timeline prints it")
    private static let payload = Flag(
        "payload", "print the decoded payload, nested ones too, as indented JSON")

    static let evidence = Command(
        "evidence", "print a notification as it was signed, and verify it",
        positionals: [uuid], options: [payload],
        discussion: """
            Prints the signedPayload that the App Store sent, to the byte, and says on standard error whether it \
            verifies against REPRICER_ROOT_CERTIFICATES and is about this app. Exits 1 when it doesn't. Calls and \
            statuses of a timeline are no notifications and have no signed text. A V1 notification is printed without \
            its shared secret and can't be verified: nobody signed it.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        try configuration.check(Live.common)
        let live = try await Live(invocation, configuration)
        let id = try invocation.arguments.required(uuid)
        let stored = try await invocation.withPool(configuration) { pool in
            try await pool.withTransaction { try EvidenceQueries.stored(id, on: $0) }
        }
        guard let stored else {
            throw CommandFailure(
                .inputRejected,
                "unknown_evidence: no notification \(quoted(id)) is stored; check the id, or it was dropped "
                    + "with its month (`repricer retention`)")
        }
        let proof = EvidenceProof(
            of: stored, by: try live.notificationVerifier(), now: live.clock.nowMilliseconds())
        try print(stored, proof, invocation)
        return proof.why == nil ? .done : .failed
    }

    private static func print(
        _ stored: EvidenceQueries.Stored, _ proof: EvidenceProof, _ invocation: Invocation
    ) throws {
        let decoded =
            invocation.arguments[payload] ? proof.signedPayload.flatMap(DecodedPayload.init) : nil
        if invocation.isJSON {
            try invocation.print(json(stored, proof, decoded))
            return
        }
        if let decoded {
            try invocation.print(decoded.text(isIndented: true) + "\n")
        } else if let signedPayload = proof.signedPayload {
            // Nothing is added to what was signed, but on a terminal.
            let end = invocation.world.isOutputTerminal ? "\n" : ""
            try invocation.print(signedPayload + end)
        }
        let receivedAt = RFC3339.format(stored.receivedAt)
        if let why = proof.why {
            invocation.world.say("not verified: \(why); received \(receivedAt)")
        } else {
            let signedAt = stored.signedAt.map { ", signed \(RFC3339.format($0))" } ?? ""
            invocation.note("verified: \(harmless(stored.name))\(signedAt), received \(receivedAt)")
        }
    }

    private static func json(
        _ stored: EvidenceQueries.Stored, _ proof: EvidenceProof, _ decoded: DecodedPayload?
    ) -> JSONValue {
        var members: [JSONValue.Member] = [
            .init(name: "notification_uuid", value: .string(stored.notificationUUID)),
            .init(name: "type", value: .text(stored.type)),
            .init(name: "subtype", value: .text(stored.subtype)),
            .init(
                name: "original_transaction_id", value: .text(stored.originalTransactionID)),
            .init(name: "signed_at", value: .text(stored.signedAt.map { RFC3339.format($0) })),
            .init(name: "received_at", value: .string(RFC3339.format(stored.receivedAt))),
            .init(name: "verified", value: .bool(proof.why == nil)),
            .init(name: "why", value: .text(proof.why)),
            .init(name: "signed_payload", value: .text(proof.signedPayload)),
        ]
        if let decoded, decoded.isJSON {
            let text = decoded.text(isIndented: false)
            members.append(.init(name: "payload", value: .finished(text)))
        }
        return .object(members)
    }
}

extension EvidenceQueries.Stored {
    fileprivate var name: String {
        [type ?? "no type", subtype].compactMap { $0 }.joined(separator: "/")
    }
}

/// A stored notification, rebuilt and verified again.
struct EvidenceProof {
    /// nil where it cannot be rebuilt.
    let signedPayload: String?
    /// nil when it verifies, else the reason.
    let why: String?

    init(of stored: EvidenceQueries.Stored, by verifier: NotificationVerifier, now: Int64) {
        let text: String
        do {
            text = try stored.evidence.signedPayload()
        } catch {
            signedPayload = nil
            why = "damaged: \(error)"
            return
        }
        signedPayload = text
        guard !stored.notificationUUID.hasPrefix(LegacyNotification.idPrefix) else {
            why = Self.fault(ofLegacy: text, id: stored.notificationUUID)
            return
        }
        do {
            let verified = try verifier.verify(signedPayload: text, nowMilliseconds: now)
            why =
                verified.notificationUUID == stored.notificationUUID
                ? nil : "other_id: what is stored under this id is the notification of another"
        } catch {
            why = error.description
        }
    }

    /// Nobody signs a V1 notification: its id is the digest of what was kept, and no more can be proved.
    private static func fault(ofLegacy text: String, id: String) -> String {
        LegacyNotification.id(ofRedacted: text) == id
            ? "unsigned: a V1 notification bears no signature; this is what was kept of it, unchanged"
            : "other_id: what is stored under this id is not what was kept under it"
    }
}
