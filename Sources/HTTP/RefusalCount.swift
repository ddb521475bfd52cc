package import ServiceKit

extension HTTPServer {
    /// Counts in `metrics` the server's own refusals, to which no request led: `repricer_http_refusals_total` by port
    /// and status.
    package static func refusals(of port: String, in metrics: Metrics) -> RefusalHandler {
        let statuses =
            Set(HTTPParseError.Kind.allCases.map(\.status)).union([408, 503]).sorted().map(
                String.init)
        metrics.declareCounter(
            "repricer_http_refusals_total",
            "What came to no request, or to no place, and was answered so or closed, by port and status.",
            labels: ["port": [port], "status": statuses])
        return { status in
            metrics.increment(
                "repricer_http_refusals_total", labels: ["port": port, "status": "\(status)"])
        }
    }
}
