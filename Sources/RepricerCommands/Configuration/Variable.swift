/// Every environment variable that the product reads.
enum Variable: String, CaseIterable, Sendable {
    case databaseURL = "REPRICER_DATABASE_URL"
    case bundleID = "REPRICER_BUNDLE_ID"
    case appAppleID = "REPRICER_APP_APPLE_ID"
    case environment = "REPRICER_ENVIRONMENT"
    case issuerID = "REPRICER_ISSUER_ID"
    case keyID = "REPRICER_KEY_ID"
    case keyFile = "REPRICER_KEY_FILE"
    case apiBaseURL = "REPRICER_API_BASE_URL"
    case apiCAFile = "REPRICER_API_CA_FILE"
    case rootCertificates = "REPRICER_ROOT_CERTIFICATES"
    case listen = "REPRICER_LISTEN"
    case pagesListen = "REPRICER_PAGES_LISTEN"
    case pagesTokenFile = "REPRICER_PAGES_TOKEN_FILE"
    case trustedProxies = "REPRICER_TRUSTED_PROXIES"
    case addressShare = "REPRICER_ADDRESS_SHARE"
    case forwarderTokenFile = "REPRICER_FORWARDER_TOKEN_FILE"
    case v1SharedSecretFile = "REPRICER_V1_SHARED_SECRET_FILE"
    case changePriceRate = "REPRICER_CHANGE_PRICE_RATE"
    case cancelRate = "REPRICER_CANCEL_RATE"
    case extendRate = "REPRICER_EXTEND_RATE"
    case statusRate = "REPRICER_STATUS_RATE"
    case webhookURL = "REPRICER_WEBHOOK_URL"
    case webhookSecretFile = "REPRICER_WEBHOOK_SECRET_FILE"
    case webhookCAFile = "REPRICER_WEBHOOK_CA_FILE"
    case reconcileEvery = "REPRICER_RECONCILE_EVERY"
    case silentAfter = "REPRICER_SILENT_AFTER"
    case drainWait = "REPRICER_DRAIN_WAIT"
    case clock = "REPRICER_CLOCK"
    case migrations = "REPRICER_MIGRATIONS"

    /// A few words for the manual page; OPERATIONS.md has the details.
    var meaning: String {
        switch self {
        case .databaseURL: "libpq URI or conninfo; when unset, libpq's PG* variables hold"
        case .bundleID: "the app's bundle identifier"
        case .appAppleID: "the app's number in App Store Connect; needed in Production"
        case .environment: "Sandbox or Production"
        case .issuerID: "the issuer id of the In-App Purchase key"
        case .keyID: "the id of the In-App Purchase key"
        case .keyFile: "the path of the key's .p8 file"
        case .apiBaseURL: "another App Store than Apple's, for rehearsals"
        case .apiCAFile: "an additional CA for that App Store"
        case .rootCertificates:
            "file or folder with Apple's root CA certificates, \(AppleRoot.file) among them"
        case .listen: "HOST:PORT of the receiver of notifications"
        case .pagesListen: "HOST:PORT of the pages, or off"
        case .pagesTokenFile: "file with the password of the pages"
        case .trustedProxies: "addresses whose connections are those of many clients"
        case .addressShare: "percentage of the receiver's connections for any other address"
        case .forwarderTokenFile: "file with the token that whoever posts notifications presents"
        case .v1SharedSecretFile: "file with the shared secret of version 1 notifications"
        case .changePriceRate: "price changes a second, over all replicas"
        case .cancelRate: "cancellations a second, over all replicas"
        case .extendRate: "extensions a second, over all replicas"
        case .statusRate: "statuses read a second, over all replicas"
        case .webhookURL: "where events go"
        case .webhookSecretFile: "file with the secret that signs webhooks"
        case .webhookCAFile: "an additional CA for the webhook's host"
        case .reconcileEvery: "interval of the reconciler, or off"
        case .silentAfter: "how long a change may be overdue before its status is checked"
        case .drainWait: "how long /readyz says 503 before the service stops"
        case .clock: "virtual clock of a rehearsal, START@RATE"
        case .migrations: "folder of the migrations"
        }
    }

    /// What to do where the variable is missing.
    var remedyWhenMissing: String {
        switch self {
        case .bundleID: "set it to the app's bundle identifier, as com.example.app"
        case .appAppleID: "set it to the app's Apple ID, the number in App Store Connect"
        case .environment: "set it to Sandbox or Production"
        case .issuerID: "set it to the issuer id that App Store Connect shows above the keys"
        case .keyID: "set it to the id of the In-App Purchase key"
        case .keyFile: "set it to the path of the key's .p8 file"
        case .rootCertificates:
            "set it to a file or folder with Apple's root CA certificates, and \(AppleRoot.remedy)"
        case .pagesTokenFile:
            "other machines reach REPRICER_PAGES_LISTEN: set it to the path of a file with the pages' password, "
                + "or listen on 127.0.0.1"
        case .webhookSecretFile: "set it to the path of a file with the secret that signs webhooks"
        case .databaseURL, .apiBaseURL, .apiCAFile, .listen, .pagesListen, .trustedProxies,
            .addressShare,
            .forwarderTokenFile,
            .v1SharedSecretFile, .changePriceRate, .cancelRate, .extendRate, .statusRate,
            .webhookURL, .webhookCAFile, .reconcileEvery, .silentAfter, .drainWait, .clock,
            .migrations:
            "set it"
        }
    }
}
