import AppStore
import Facts
import ServiceKit

extension Commands {
    private static let uuid = Positional("UUID", "the notification's id, as timeline prints it")
    private static let ofSubscription = ValueOption(
        "subscription", "ID", "the answer to the call UUID of this subscription")
    private static let payload = Flag(
        "payload", "print the decoded payload, nested ones too, as indented JSON")

    static let evidence = Command(
        "evidence", "print a notification as it was signed, and verify it",
        positionals: [uuid], options: [payload, ofSubscription],
        discussion: """
            Prints the signedPayload that the App Store sent, to the byte, and says on standard error whether it \
            verifies against REPRICER_ROOT_CERTIFICATES and is about this app. Exits 1 when it doesn't. With \
            --subscription it prints what the App Store answered to a call of a timeline, to the byte; what that holds of \
            signatures was verified when it came. Statuses are not kept. A V1 notification is printed without \
            its shared secret and can't be verified: nobody signed it.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        try configuration.check(Live.common)
        let live = try await Live(invocation, configuration)
        let id = try invocation.arguments.required(uuid)
        if let subscription = invocation.arguments[ofSubscription] {
            return try await printAnswer(to: id, of: subscription, invocation, configuration)
        }
        let stored = try await invocation.withPool(configuration) { pool in
            try await pool.withTransaction { connection in
                // Apple writes ids in lower case, but the source from which people copy may use capitals.
                try EvidenceQueries.stored(id, on: connection)
                    ?? EvidenceQueries.stored(id.lowercased(), on: connection)
            }
        }
        guard let stored else {
            guard !id.hasPrefix("status:") else {
                throw CommandFailure(
                    .inputRejected,
                    "unknown_evidence: \(quoted(id)) is a status that was read; what a status said is kept in the facts, "
                        + "but not as it was signed")
            }
            throw CommandFailure(
                .inputRejected,
                "unknown_evidence: no notification \(quoted(id)) is stored; check the id, or it was dropped "
                    + "with its month (`repricer retention`); of a call name its subscription, too "
                    + "(--subscription)")
        }
        let proof = EvidenceProof(
            of: stored, by: try live.notificationVerifier(), now: live.clock.nowMilliseconds())
        try print(stored, proof, invocation)
        return proof.why == nil ? .done : .failed
    }

    private static func printAnswer(
        to callID: String, of subscription: String, _ invocation: Invocation,
        _ configuration: Configuration
    ) async throws -> ExitCode {
        guard !invocation.arguments[payload] else {
            throw CommandFailure(.usage, "--payload is of notifications; leave out --subscription")
        }
        let stored = try await invocation.withPool(configuration) { pool in
            try await pool.withTransaction {
                try EvidenceQueries.answer(to: callID, of: subscription, on: $0)
            }
        }
        guard let stored else {
            throw CommandFailure(
                .inputRejected,
                "unknown_evidence: subscription \(quoted(subscription)) has no call \(quoted(callID)); "
                    + "`repricer timeline \(harmless(subscription))` lists its calls")
        }
        let body: String?
        do { body = try stored.evidence?.signedPayload() } catch {
            throw CommandFailure(
                .failed, "damaged: the answer to call \(callID) can't be rebuilt: \(error)")
        }
        guard !invocation.isJSON else {
            let facts: JSONValue = [
                "call_id": callID, "original_transaction_id": subscription, "kind": stored.kind,
                "http_status": stored.httpStatus, "settled_at": stored.settledAt?.instantText,
                "answer": body,
            ]
            try invocation.print(json: facts, "")
            return .done
        }
        let end = invocation.dependencies.isOutputTerminal ? "\n" : ""
        if let body { try invocation.print(body + end) }
        let status = stored.httpStatus.map { "HTTP \($0)" } ?? "no answer"
        invocation.note(
            "\(stored.kind): \(status), "
                + (stored.settledAt.map { "settled \($0.instantText)" } ?? "not settled yet"))
        return .done
    }

    private static func print(
        _ stored: EvidenceQueries.Stored, _ proof: EvidenceProof, _ invocation: Invocation
    ) throws {
        let decoded =
            invocation.arguments[payload] ? proof.signedPayload.flatMap(DecodedPayload.init) : nil
        guard !invocation.isJSON else {
            return try invocation.print(json: json(stored, proof, decoded), "")
        }
        if let decoded {
            try invocation.print(decoded.text(isIndented: true) + "\n")
        } else if let signedPayload = proof.signedPayload {
            // Nothing is added to what was signed, except a line feed on a terminal.
            let end = invocation.dependencies.isOutputTerminal ? "\n" : ""
            try invocation.print(signedPayload + end)
        }
        let receivedAt = stored.receivedAt.instantText
        if let why = proof.why {
            invocation.dependencies.say("not verified: \(why); received \(receivedAt)")
        } else {
            let signedAt = stored.signedAt.map { ", signed \($0.instantText)" } ?? ""
            invocation.note("verified: \(harmless(stored.name))\(signedAt), received \(receivedAt)")
        }
    }

    private static func json(
        _ stored: EvidenceQueries.Stored, _ proof: EvidenceProof, _ decoded: DecodedPayload?
    ) -> JSONValue {
        let facts: JSONValue = [
            "notification_uuid": stored.notificationUUID, "type": stored.type,
            "subtype": stored.subtype, "original_transaction_id": stored.originalTransactionID,
            "signed_at": stored.signedAt?.instantText,
            "received_at": stored.receivedAt.instantText, "verified": proof.why == nil,
            "why": proof.why, "signed_payload": proof.signedPayload,
        ]
        guard let decoded, decoded.isJSON else { return facts }
        return facts + ["payload": JSONValue.finished(decoded.text(isIndented: false))]
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
    /// nil when it verifies; otherwise the reason why not.
    let why: String?

    init(of stored: EvidenceQueries.Stored, by verifier: NotificationVerifier, now: Int64) {
        do {
            let text = try stored.evidence.signedPayload()
            self.init(of: text, id: stored.notificationUUID, by: verifier, now: now)
        } catch {
            self.init(signedPayload: nil, why: "damaged: \(error)")
        }
    }

    private init(signedPayload: String?, why: String?) {
        self.signedPayload = signedPayload
        self.why = why
    }

    /// The proof of a text that was stored under this id.
    init(of text: String, id: String, by verifier: NotificationVerifier, now: Int64) {
        signedPayload = text
        guard !id.hasPrefix(LegacyNotification.idPrefix) else {
            why = Self.fault(ofLegacy: text, id: id)
            return
        }
        do {
            let verified = try verifier.verify(signedPayload: text, nowMilliseconds: now)
            why =
                verified.notificationUUID == id
                ? nil : "other_id: what is stored under this id is the notification of another"
        } catch {
            why = error.description
        }
    }

    /// Whether it is the unaltered stored body of a V1 notification, which is not signed.
    var isWholeThoughUnsigned: Bool { why?.hasPrefix("unsigned:") ?? false }

    /// A V1 notification is not signed. Its id is the digest of the stored body, and only that can be checked.
    private static func fault(ofLegacy text: String, id: String) -> String {
        LegacyNotification.id(ofRedacted: text) == id
            ? "unsigned: a V1 notification bears no signature; this is what was kept of it, unchanged"
            : "other_id: what is stored under this id is not what was kept under it"
    }
}
