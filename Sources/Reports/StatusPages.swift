package import HTTP
package import ServiceKit

/// The read-only pages: the reports of schema `report`, as HTML.
package struct StatusPages: Sendable {
    private static let indexReports: [ReportName] = [
        .batchSummary, .reconciliation, .notificationHealth, .unknownPart,
    ]
    /// What `/batches/ID` shows; the row-by-row reports are the CLI's.
    private static let batchReports: [ReportName] = [
        .batchSummary, .consentFunnel, .revenueImpact, .forecastAccuracy, .reconciliation,
    ]

    private let reports: ReportStore
    private let clock: any WallClock
    private let log: Log

    package init(reports: ReportStore, clock: any WallClock, log: Log) {
        self.reports = reports
        self.clock = clock
        self.log = log
    }

    /// The page of a path, by its segments, with the name of its route; nil where there is none.
    package func page(
        at segments: ArraySlice<String>
    ) -> (route: String, answer: @Sendable () async -> HTTPResponse)? {
        guard let first = segments.first else {
            return ("index", { await page("repricer", Self.indexReports, batchID: nil) })
        }
        guard first == "batches", segments.count == 2, let id = segments.last else { return nil }
        return ("batch", { await page("Batch", Self.batchReports, batchID: id) })
    }

    private func page(_ title: String, _ names: [ReportName], batchID: String?) async
        -> HTTPResponse
    {
        let now = clock.nowMilliseconds()
        do {
            var tables: [ReportTable] = []
            for name in names {
                let query = ReportQuery(name, batchID: batchID, judgedAt: now)
                tables.append(try await readTable(query, from: reports))
            }
            return page(200, htmlPage(title: title, asOf: now, tables: tables, link: batchAddress))
        } catch ReportError.unknownBatch {
            return page(404, htmlPage(title: "No such batch", asOf: nil, tables: []))
        } catch {
            log.warning("status page failed", ["page": title, "why": "\(error)"])
            return page(
                503, htmlPage(title: "The database is away; try again", asOf: nil, tables: []))
        }
    }

    private func page(_ status: Int, _ text: String) -> HTTPResponse {
        var response = HTTPResponse.html(status, text)
        response.headers["Cache-Control"] = "no-store"
        response.headers["Content-Security-Policy"] =
            "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response
    }
}

private func batchAddress(_ batchID: String) -> String {
    "/batches/\(PercentCoding.encode(batchID))"
}
