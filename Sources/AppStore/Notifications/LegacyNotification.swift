import Digests
internal import JOSE
internal import JSON
package import Pricing

/// Why a body is no V1 notification. It is safe to show, because nothing of the body is in it.
package struct LegacyFault: Error, Hashable, Sendable, CustomStringConvertible {
    /// The code, stable and short, for logs and metrics.
    package let code: String
    package let description: String
}

/// A V1 server-to-server notification (`responseBodyV1`): plain JSON with the app's shared secret in it, unsigned.
/// Apple replaced it by V2 in 2023 and still sends it.
///
/// Anyone who knows the secret can forge one, and it has less than V2: no items, no `advancedCommerceInfo`, no consent.
/// So it is evidence, a reason to read the subscription's status, and a hint about renewal and billing retry until that
/// status is known.
package struct LegacyNotification: Sendable {
    /// The prefix of its ids. No id that Apple signs has it.
    package static let idPrefix = WireNotification.legacyPrefix
    /// The text that replaces the secret in the evidence.
    package static let redaction = "[shared secret]"
    private static let limits = JSONDocument.Limits(bytesMax: 1 << 20, depthMax: 32)

    private let body: [UInt8]
    private let json: JSONNode

    /// Reads a body that is not authenticated yet.
    package init(_ body: [UInt8]) throws(LegacyFault) {
        guard let json = JSONDocument.read(body, limits: Self.limits), json.kind == .object else {
            throw LegacyFault(
                code: "not_json", description: "the body is not a JSON object in UTF-8")
        }
        guard json.count(of: "password") <= 1 else {
            throw LegacyFault(
                code: "two_passwords", description: "the JSON object carries password twice")
        }
        guard json["notification_type"]?.storableText.map({ !$0.isEmpty }) ?? false else {
            throw LegacyFault(
                code: "no_notification_type",
                description: "the JSON object must carry the text notification_type")
        }
        self.body = body
        self.json = json
    }

    /// The shared secret that the sender gave, as UTF-8. It must never be shown.
    package var password: [UInt8]? { json["password"]?.textBytes.map { Array($0) } }
    /// `notification_type` as Apple wrote it.
    package var type: String { json["notification_type"]?.word ?? "" }
    package var kind: LegacyType? { LegacyType(rawValue: type) }
    /// The type, where it is unknown.
    package var unknown: [UnknownPart] { kind == nil ? [UnknownPart(.type, "V1 \(type)")] : [] }
    /// Every app that it names, at its top or in a receipt. The elements that Apple's page lists name none.
    package var bundleIDs: Set<String> {
        Set(([json] + receipts).compactMap { $0["bid"].map { $0.storableText ?? "" } })
    }

    /// nil for an unknown environment.
    package var environment: StoreEnvironment? {
        switch json["environment"]?.text {
        case "Sandbox": .sandbox
        case "PROD", "Production": .production
        case .some, .none: nil
        }
    }

    /// The body that may be stored: without the secret, otherwise the same to the byte.
    ///
    /// The secret is replaced wherever it occurs, not only where Apple puts it.
    package func redacted() -> String {
        guard let secret = json["password"]?.raw else {
            return String(decoding: body, as: UTF8.self)
        }
        // First it is replaced with its quotes, so that an empty or short secret removes nothing else.
        let content = Array(secret.utf8.dropFirst().dropLast())
        let mark = Array(Self.redaction.utf8)
        let text = body.replacing([0x22] + content + [0x22], with: [0x22] + mark + [0x22])
        let kept = content.count < 8 ? text : text.replacing(content, with: mark)
        return String(decoding: kept, as: UTF8.self)
    }

    /// The id: `v1:` and the digest of the stored body, so that a repeated notification has the same id.
    package static func id(ofRedacted text: String) -> String {
        idPrefix + SHA256.hexadecimalDigest(of: Array(text.utf8))
    }

    /// Its subscription; nil where it names none, or several.
    package var originalTransactionID: String? {
        if let id = json["original_transaction_id"]?.legacyID { return id }
        let named = Set(
            (renewals + receipts).compactMap { $0["original_transaction_id"]?.legacyID })
        return named.count == 1 ? named.first : nil
    }

    private var renewals: [JSONNode] {
        json["unified_receipt"]?["pending_renewal_info"]?.elements ?? []
    }

    /// The transactions, the newest first as Apple lists them. The older layouts have a single one.
    private var receipts: [JSONNode] {
        let newest = json["unified_receipt"]?["latest_receipt_info"] ?? json["latest_receipt_info"]
        return newest?.elements ?? [newest, json["latest_expired_receipt_info"]].compactMap { $0 }
    }

    /// Its statement about the subscription; nil where none of it can be trusted.
    ///
    /// - Parameters:
    ///   - id: Its id as evidence.
    ///   - receivedAt: When it arrived, because it has no date of its own. It is dated by the newest event that it
    ///     mentions, but never after its arrival. A signed statement of the same time overrides it.
    package func event(id: String, receivedAt: Instant) -> SubscriptionEvent? {
        guard let subscription = originalTransactionID, let kind else { return nil }
        let receipt =
            receipts
            .filter { $0["original_transaction_id"]?.legacyID == subscription }
            .max { $0.purchasedAt < $1.purchasedAt }
        let renewal = renewals.first { $0["original_transaction_id"]?.legacyID == subscription }
        let told = statement(kind, renewal: renewal, receipt: receipt)
        let instants = [
            json["auto_renew_status_change_date_ms"]?.legacyInstant,
            json["cancellation_date_ms"]?.legacyInstant, receipt?.purchasedAt,
        ].compactMap { $0 }.filter { $0.milliseconds > 0 }
        guard !told.isSilent, let newest = instants.max() else { return nil }
        var event = SubscriptionEvent(
            key: SubscriptionEvent.Key(signedAt: min(newest, receivedAt), evidenceID: id),
            source: .legacy, originalTransactionID: subscription)
        event.type = type
        event.legacy = told
        return event
    }

    private func statement(
        _ kind: LegacyType, renewal: JSONNode?, receipt: JSONNode?
    ) -> LegacyStatement {
        var told = LegacyStatement(autoRenews: nil)
        switch kind {
        case .didChangeRenewalStatus:
            told.autoRenews =
                json["auto_renew_status"]?.legacyFlag ?? renewal?["auto_renew_status"]?.legacyFlag
        case .didFailToRenew, .didRecover, .didRenew, .initialBuy, .interactiveRenewal, .renewal:
            told.isInBillingRetry = renewal?["is_in_billing_retry_period"]?.legacyFlag
            if told.isInBillingRetry != nil {
                told.gracePeriodExpiresAt = renewal?["grace_period_expires_date_ms"]?.legacyInstant
            }
            if kind != .didFailToRenew {
                told.expiresAt = receipt?["expires_date_ms"]?.legacyInstant
            }
        case .cancel, .refund, .revoke, .didChangeRenewalPref, .priceIncreaseConsent,
            .consumptionRequest:
            break
        }
        return told
    }

    /// Reads a stored body, which was authenticated when it arrived; nil where it is no V1 notification.
    package static func storedEvent(
        _ redacted: String, id: String, receivedAt: Instant
    ) -> SubscriptionEvent? {
        guard id.hasPrefix(idPrefix) else { return nil }
        // A text that is no V1 body says nothing.
        return (try? LegacyNotification(Array(redacted.utf8)))?
            .event(id: id, receivedAt: receivedAt)
    }
}

extension JSONNode {
    /// V1 writes ids as numbers at the top and as texts in receipts.
    fileprivate var legacyID: String? {
        let text = storableText ?? int64.map(String.init)
        guard let text, !text.isEmpty, text.count <= 64,
            text.utf8.allSatisfy({ (0x30...0x39).contains($0) })
        else { return nil }
        return text
    }

    /// V1 writes booleans as `"true"` at the top and as `"1"` in receipts.
    fileprivate var legacyFlag: Bool? {
        switch text ?? raw {
        case "true", "1": true
        case "false", "0": false
        default: nil
        }
    }

    /// An instant in milliseconds, mostly written as text.
    fileprivate var legacyInstant: Instant? {
        (text.flatMap { Int64($0) } ?? int64).map(Instant.init(milliseconds:))
    }

    fileprivate var purchasedAt: Instant {
        self["purchase_date_ms"]?.legacyInstant ?? Instant(milliseconds: 0)
    }
}
