package import JOSE
internal import JSON
package import Pricing

/// Decides whether a notification is the App Store's and about our app, and decodes it.
///
/// The order is: outer signature, content, nested signatures, their content. Nothing is decoded before its signature is
/// proved. A genuine payload of an unknown shape is no error: it is returned without an event, to be stored raw.
///
/// Certificates are judged at the `signedDate` of the part that they signed; without one, at that of the notification;
/// without that, at our time. So history still verifies after certificates have expired.
package struct NotificationVerifier: Sendable {
    private static let signedFields: [StaticString] = [
        "signedTransactionInfo", "signedRenewalInfo", "signedAppTransactionInfo",
    ]

    private let verifier: JWSVerifier
    private let bundleID: String
    private let appAppleID: Int64?
    private let environment: StoreEnvironment

    /// - Parameters:
    ///   - verifier: It is shared with others, for its cache.
    ///   - bundleID: Our bundle id.
    ///   - appAppleID: Our app's id. It is compared only in Production, where nil refuses everything.
    ///   - environment: The environment that this instance serves.
    package init(
        verifier: JWSVerifier, bundleID: String, appAppleID: Int64?,
        environment: StoreEnvironment
    ) {
        self.verifier = verifier
        self.bundleID = bundleID
        self.appAppleID = appAppleID
        self.environment = environment
    }

    /// Verifies everything. Throws where the sender, the app or the environment is wrong.
    package func verify(
        signedPayload: String, nowMilliseconds: Int64
    ) throws(NotificationError) -> VerifiedNotification {
        let payload: [UInt8]
        let json: JSONNode?
        do {
            (payload, json) = try verifier.signedJSON(of: signedPayload, now: nowMilliseconds)
        } catch {
            throw error.isMalformed ? .malformed(error) : .refused(.signature(error))
        }
        let wire = json.flatMap(WireNotification.init)
        if json != nil, wire == nil { throw .otherStatement("a JSON value that is no object") }
        if let other = wire?.otherStatement { throw .otherStatement(other) }
        if let wire { try checkContent(wire) }
        // A nested part without a date was signed no later than what holds it.
        let outerTime = wire?.signedDate?.milliseconds ?? nowMilliseconds
        let parts = NotificationParts(
            payload: payload, wire: wire,
            transaction: try nested("signedTransactionInfo", of: wire?.data, now: outerTime),
            renewal: try nested("signedRenewalInfo", of: wire?.data, now: outerTime))
        // Nothing is read from these, but a field that claims to be signed must have a valid signature.
        for body in [wire?.summary, wire?.appData, wire?.externalPurchaseToken] {
            for name in Self.signedFields { _ = try nested(name, of: body, now: outerTime) }
        }
        try check(parts.pair)
        return parts.notification(receivedAt: Instant(milliseconds: nowMilliseconds))
    }

    /// Decodes a payload that was verified before and stored since; never fails.
    ///
    /// - Parameters:
    ///   - signedPayload: From our own database only: nothing is proved here.
    ///   - receivedAt: Stands in where the payload has no time of its own.
    package static func decode(signedPayload: String, receivedAt: Instant) -> VerifiedNotification {
        // A text that is no JWS decodes like an empty payload: with an id of its own, and without an event.
        let payload = (try? CompactJWS(parsing: signedPayload))?.payload
        return NotificationParts(proved: payload ?? Array(signedPayload.utf8))
            .notification(receivedAt: receivedAt)
    }

    private func checkContent(_ wire: WireNotification) throws(NotificationError) {
        // The App Store sends one of them, and it must be about our app.
        let bodies = [wire.data, wire.summary, wire.appData].compactMap { $0 }
        for body in bodies { try check(body, environment: body["environment"]?.storableText) }
        if let token = wire.externalPurchaseToken {
            let isSandbox = token["externalPurchaseId"]?.text?.hasPrefix("SANDBOX") ?? false
            let environment: StoreEnvironment = isSandbox ? .sandbox : .production
            try check(token, environment: environment.rawValue)
        } else if bodies.isEmpty {
            try checkStray(wire)
        }
    }

    /// Refuses a payload of another app without any of the known bodies, which would otherwise pass as an unknown
    /// shape.
    private func checkStray(_ wire: WireNotification) throws(NotificationError) {
        for body in [wire.json] + wire.bodiesOfUnknownKind {
            if let bundle = body["bundleId"]?.storableText, bundle != bundleID {
                throw .refused(.bundle)
            }
            if let name = body["environment"]?.storableText, name != environment.rawValue {
                throw .refused(.environment)
            }
        }
    }

    private func check(
        _ container: JSONNode, environment: String?
    ) throws(NotificationError) {
        guard container["bundleId"]?.storableText == bundleID else { throw .refused(.bundle) }
        switch self.environment {
        case .sandbox: break
        case .production:
            guard let appAppleID, container["appAppleId"]?.int64 == appAppleID else {
                throw .refused(.appID)
            }
        }
        guard environment == self.environment.rawValue else { throw .refused(.environment) }
    }

    /// Reads the JWS under `name` in place, in the proved payload. Only one with escapes is copied.
    private func nested(
        _ name: StaticString, of body: JSONNode?, now: Int64
    ) throws(NotificationError) -> NotificationParts.Nested {
        guard let value = body?[name], !value.isNull else { return .absent }
        guard let jws = value.textBytes else { return .unreadable }
        do {
            return NotificationParts.Nested(try verifier.signedJSON(of: jws.span, now: now).json)
        } catch {
            // A text that is no JWS at all does not claim to be signed. It is an unknown shape, not a forgery, and
            // gives no event.
            if error.code == .malformed { return .unreadable }
            throw .refused(.nestedSignature(error))
        }
    }

    private func check(_ pair: SignedPair?) throws(NotificationError) {
        do {
            try pair?.check(bundleID: bundleID, environment: environment)
        } catch {
            switch error {
            case .bundle: throw .refused(.nestedBundle)
            case .environment: throw .refused(.nestedEnvironment)
            case .subscription: throw .refused(.nestedSubscription)
            }
        }
    }
}
