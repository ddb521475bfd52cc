package import ServiceKit

/// The endpoints of the App Store that we call. They are few enough to be a metric label.
package enum StoreEndpoint: String, CaseIterable, Sendable {
    case changePrice = "change_price"
    case cancel, extend
    case extendAll = "extend_all"
    case extendStatus = "extend_status"
    case status, history, test

    /// The endpoint of a request's target.
    init?(target: String) {
        let known = Self.prefixes.first { target.hasPrefix($0.prefix) }
        guard let known else { return nil }
        self = known.endpoint
    }

    /// The longer prefixes come first.
    private static let prefixes: [(prefix: String, endpoint: StoreEndpoint)] = [
        ("/advancedCommerce/v1/subscription/changePrice/", .changePrice),
        ("/advancedCommerce/v1/subscription/cancel/", .cancel),
        ("/inApps/v1/subscriptions/extend/mass/", .extendStatus),
        ("/inApps/v1/subscriptions/extend/mass", .extendAll),
        ("/inApps/v1/subscriptions/extend/", .extend),
        ("/inApps/v1/subscriptions/", .status),
        ("/inApps/v1/notifications/history", .history),
        ("/inApps/v1/notifications/test", .test),
    ]
}

/// Counts the requests to the App Store, with their duration, outcome and error code.
package struct StoreRequestWatch: Sendable {
    private static let results = ["answered", "refused", "throttled", "unknown", "not_sent"]
    private static let bareStatuses = [400, 401, 403, 404, 408, 429, 500, 502, 503, 504]
    private static let codes = Set(APIErrorCode.documented.keys).union(bareStatuses)

    private let metrics: Metrics

    package init(metrics: Metrics) {
        self.metrics = metrics
        let endpoints = StoreEndpoint.allCases.map(\.rawValue)
        metrics.declareTiming(
            "repricer_store_request_seconds",
            "Time from a request to the App Store until its whole answer, or until it was given up.",
            labels: ["endpoint": endpoints])
        metrics.declareCounter(
            "repricer_store_requests_total",
            "Requests to the App Store, by endpoint and by what became of them.",
            labels: ["endpoint": endpoints, "result": Self.results])
        metrics.declareCounter(
            "repricer_store_errors_total",
            "Errors that the App Store answered, by its code, else by the HTTP status.",
            labels: ["code": Self.codes.sorted().map(String.init) + ["other"]])
    }

    func note<Value>(
        _ target: String, _ outcome: CallOutcome<Value>, code: APIErrorCode?, took: Duration
    ) {
        guard let endpoint = StoreEndpoint(target: target)?.rawValue else { return }
        metrics.increment(
            "repricer_store_requests_total",
            labels: ["endpoint": endpoint, "result": Self.result(outcome)])
        if case .notSent = outcome { return }
        metrics.timing("repricer_store_request_seconds", labels: ["endpoint": endpoint])
            .observe(seconds: took / .seconds(1))
        guard let code else { return }
        let label = Self.codes.contains(code.rawValue) ? String(code.rawValue) : "other"
        metrics.increment("repricer_store_errors_total", labels: ["code": label])
    }

    private static func result<Value>(_ outcome: CallOutcome<Value>) -> String {
        switch outcome {
        case .answered: "answered"
        case .refused: "refused"
        case .throttled: "throttled"
        case .unknown: "unknown"
        case .notSent: "not_sent"
        }
    }
}
