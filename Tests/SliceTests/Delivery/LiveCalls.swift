import AppStore
import Calls
import JOSE
import SandboxStore

extension DeliveryHarness {
    /// The client of the App Store over HTTP that a test answers. Nothing that it says would be verified.
    func liveCalls(_ http: any HTTPSending) throws -> LiveStoreCalls {
        let authority = try CertificateAuthority(
            validFrom: 1_577_836_800_000, validUntil: 2_208_988_800_000)
        return LiveStoreCalls(
            client: AppStoreClient(
                http: http,
                token: BearerToken(
                    key: try .generate(), keyID: "KEY", issuerID: "ISSUER",
                    bundleID: "com.example.app", clock: clock),
                clock: clock, verifier: try JWSVerifier(roots: authority.trustedRoots()),
                bundleID: "com.example.app", environment: .production))
    }
}
