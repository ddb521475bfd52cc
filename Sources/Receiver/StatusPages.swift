import HTTP
import Ledger
import Reports
import ServiceKit

/// The read-only pages: the reports of schema `report`, as HTML.
struct StatusPages: Sendable {
    /// What `/batches/ID` shows; the row-by-row reports are the CLI's.
    private static let batchReports: [ReportName] = [
        .batchSummary, .consentFunnel, .revenueImpact, .forecastAccuracy, .reconciliation,
    ]

    let reports: ReportStore
    let clock: any WallClock
    let log: Log

    func index() async -> HTTPResponse {
        await page(
            "repricer", [.batchSummary, .reconciliation, .notificationHealth, .unknownPart],
            batchID: nil)
    }

    func batch(_ batchID: String) async -> HTTPResponse {
        await page("Batch", Self.batchReports, batchID: batchID)
    }

    private func page(_ title: String, _ names: [ReportName], batchID: String?) async
        -> HTTPResponse
    {
        let now = clock.nowMilliseconds()
        do {
            var tables: [ReportTable] = []
            for name in names {
                let query = ReportQuery(name, batchID: batchID, asOf: now)
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
