import AppStore
import HTTP
import JOSE

extension ConfigurationCheck {
    /// No transaction has this id, so the answer says only whether our key is accepted.
    private static let noTransaction = "1"
    /// Apple's codes for "no such transaction", which prove that our key was accepted.
    private static let codesOfTheLetIn: Set = [4_000_006, 4_040_001, 4_040_005, 4_040_010]
    private static let comparison =
        "compare REPRICER_ISSUER_ID, REPRICER_KEY_ID, REPRICER_KEY_FILE and REPRICER_BUNDLE_ID with App "
        + "Store Connect: Users and Access, Integrations, In-App Purchase"

    /// Reads the status of a transaction that cannot exist. It is the only call that changes nothing and checks issuer,
    /// key id, key and bundle id at once.
    func signedCall(_ baseURL: String, found: String) async -> Result {
        guard let (client, http) = client(baseURL) else {
            return Result(
                name: "app store", found: "\(found); the key was not tried", problems: [],
                wasTried: false)
        }
        defer { http.close() }
        switch await client.subscriptionStatuses(transactionID: Self.noTransaction) {
        case .answered: return accepted(found)
        case .refused(let code, let message, _):
            if Self.codesOfTheLetIn.contains(code.rawValue) { return accepted(found) }
            if code.httpStatus == 401 {
                return failed(
                    "app store", .keyID, "the App Store does not take our key (\(code))",
                    Self.comparison)
            }
            guard !code.isBareStatus else {
                return failed(
                    "app store", .apiBaseURL,
                    "\(baseURL) answers \(code) without a code: this is not the App Store",
                    "check the URL, which has no path of its own")
            }
            return failed(
                "app store", .apiBaseURL,
                "a signed call is refused (\(code)): \(code.meaning ?? harmless(message))",
                Self.comparison)
        case .throttled(let until, _):
            return away("the App Store asks for silence until \(until.text)")
        case .unknown(let reason, _), .notSent(let reason):
            return away("a signed call failed: \(reason)")
        }
    }

    private func accepted(_ found: String) -> Result {
        Result(name: "app store", found: "\(found), and takes our key", problems: [])
    }

    private func away(_ wrong: String) -> Result {
        failed(
            "app store", .apiBaseURL, wrong + "; the key is not proved", "try again later",
            isAway: true)
    }

    /// nil where a setting is missing or a file cannot be used. Their own checks say so.
    private func client(_ baseURL: String) -> (AppStoreClient, HTTPClient)? {
        guard let keyFile = configuration.keyFile, let keyID = configuration.keyID,
            let issuerID = configuration.issuerID, let bundleID = configuration.bundleID,
            let environment = configuration.environment,
            let rootsPath = configuration.rootCertificates,
            // Another check says why one of these cannot be read.
            let key = try? SecretFile.readKey(keyFile),
            let verifier = try? JWSVerifier(roots: TrustedRoots(certificatesIn: rootsPath)),
            let http = try? HTTPClient(
                baseURL: baseURL, extraCAFile: configuration.apiCAFile, limits: .forOneQuestion)
        else { return nil }
        let clock = dependencies.realClock
        let token = BearerToken(
            key: key, keyID: keyID, issuerID: issuerID, bundleID: bundleID, clock: clock)
        return (
            AppStoreClient(
                http: http, token: token, clock: clock, verifier: verifier,
                bundleID: bundleID, environment: environment), http
        )
    }
}
