import Batches
import Facts
import HTTP
import Pricing
import Reports
import ServiceKit

/// The filters of a report in a page's address.
struct Filter: Sendable, Equatable {
    var batchID: String?
    var asOf: Int64?
    var asOfMicroseconds: Int64 = 0
    var asOfText: String?
    var currency: String?
    var storefront: String?
    var reportingCurrency: String?
    /// Only lines of money before this instant: UTC milliseconds.
    var before: Int64?
    /// Only lines of money from this instant on: the start of one page.
    var from: Int64?
    var isCSV = false

    private static let names = [
        "batch", "as_of", "currency", "storefront", "reporting_currency", "before", "from",
        "format", "refresh",
    ]

    /// Reads the filters. Empty ones count as missing, because a form sends them all.
    init(_ query: [String: [String]], of name: ReportName, columns: [ReportColumn]) throws {
        if let unknown = query.keys.filter({ !Self.names.contains($0) }).min() {
            throw PageFault(
                400, "There is no such filter",
                "<code>\(String(unknown.prefix(40)))</code> is no filter of a report; the filters are "
                    + "\(Self.names.dropLast().joined(separator: ", ")).")
        }
        let given = query.compactMapValues { $0.last.flatMap { $0.isEmpty ? nil : $0 } }
        if let batch = given["batch"] {
            guard batch.isUUID else { throw PageFault.noBatch(batch) }
            batchID = batch.lowercased()
        }
        if let text = given["as_of"] {
            asOf = try Self.instant(text)
            asOfMicroseconds = RFC3339.microseconds(beyondMillisecondsOf: text)
            asOfText = text
        }
        before = try Self.bound("before", given, name)
        from = try Self.bound("from", given, name)
        currency = try Self.place("currency", "EUR", given, columns)
        storefront = try Self.place("storefront", "DEU", given, columns)
        if given["reporting_currency"] != nil {
            guard name == .revenueBridgeTotal else {
                throw PageFault(
                    400, "This report has no reporting currency",
                    "Only <a href=\"/reports/revenue_bridge_total\">\(ReportName.revenueBridgeTotal.title)</a> converts to one."
                )
            }
            reportingCurrency = try Self.currency(query)
        }
        switch given["format"] {
        case nil, "html"?: break
        case "csv"?: isCSV = true
        case .some(let other):
            throw PageFault(
                400, "There is no such format",
                "<code>\(String(other.prefix(40)))</code> is not among the formats of a page: csv, html. "
                    + "<code>repricer report \(name.rawValue) --format json</code> prints JSON.")
        }
    }

    /// The currency to which sums are converted.
    static func currency(_ query: [String: [String]]) throws -> String? {
        guard
            let code = query["reporting_currency"]?.last ?? query["currency"]?.last, !code.isEmpty
        else { return nil }
        guard isCode(code) else {
            throw PageFault(
                400, "This is no currency",
                "Write the code of three capital letters, such as <code>EUR</code>.")
        }
        return code
    }

    private static func bound(
        _ bound: String, _ given: [String: String], _ name: ReportName
    ) throws -> Int64? {
        guard let text = given[bound] else { return nil }
        guard name == .money else {
            throw PageFault(
                400, "This report has no pages",
                "Only <a href=\"/reports/money\">\(ReportName.money.title)</a> is shown page by page: leave "
                    + "<code>\(bound)</code> out.")
        }
        return try instant(text)
    }

    private static func isCode(_ text: String) -> Bool {
        text.utf8.count == 3 && text.utf8.allSatisfy { (0x41...0x5A).contains($0) }
    }

    private static func place(
        _ name: String, _ example: String, _ given: [String: String], _ columns: [ReportColumn]
    ) throws -> String? {
        guard let code = given[name] else { return nil }
        guard columns.contains(where: { $0.name == name }) else {
            throw PageFault(
                400, "This report has no \(name)",
                "Its rows are about no single \(name): leave this filter out.")
        }
        guard isCode(code) else {
            throw PageFault(
                400, "This is no \(name)",
                "Write the code of three capital letters, such as <code>\(example)</code>.")
        }
        return code
    }

    private static func instant(_ text: String) throws -> Int64 {
        // Form fields omit the seconds and the time zone.
        let read = [text, text + "Z", text + ":00Z", text + "T00:00:00Z"].lazy
            .compactMap { Instant($0) }.first
        guard let read else {
            throw PageFault(
                400, "This is no instant",
                "Write it as <code>2026-11-01T00:00:00Z</code>, or as a day: <code>2026-11-01</code>, which means its "
                    + "beginning in UTC.")
        }
        return read.milliseconds
    }
}

extension Site {
    /// A page offers no larger download; the command writes rows as they are read.
    fileprivate static let csvRowsMax = 200_000
    /// Lines of money on one page; those of its last instant may be more.
    static let moneyLines = 1000

    func reportsPage() async throws -> Page {
        let described = try await reports.describe(ReportName.allCases)
        let rows = described.map { report -> [HTML] in
            let address = "/reports/\(report.name.rawValue)"
            return [
                .link(address, report.name.title), .prose(report.lead),
                .link("\(address)?format=csv", "CSV"),
            ]
        }
        return Page(
            title: "Reports",
            lead:
                "<p class=\"lead\">Each is a view of schema <code>report</code>: SQL, the command and these pages say the "
                + "same.</p>\n",
            body: section(
                "All reports",
                HTMLTable(
                    "Reports", [.text("Report"), .text("What it tells"), .text("All of it")], rows,
                    isStacked: true)),
            asOf: clock.nowMilliseconds())
    }

    func reportPage(_ typed: String, _ query: [String: [String]]) async throws -> Answer {
        guard let name = ReportName(argument: typed) else {
            throw PageFault(
                404, "There is no such report",
                "No report is called <code>\(String(typed.prefix(60)))</code>: <a href=\"/reports\">all reports</a>."
            )
        }
        guard let described = try await reports.describe([name]).first else {
            throw ReportError.notReadable(name)
        }
        let filter = try Filter(query, of: name, columns: described.columns)
        let now = clock.nowMilliseconds()
        var wanted = ReportQuery(name, batchID: filter.batchID, asOf: filter.asOf)
        wanted.asOfMicroseconds = filter.asOfMicroseconds
        wanted.judgedAt = filter.asOf == nil ? now : nil
        wanted.reportingCurrency = filter.reportingCurrency
        wanted.currency = filter.currency
        wanted.storefront = filter.storefront
        wanted.rowsMax = (filter.isCSV ? Self.csvRowsMax : htmlRowsMax) + 1
        let batches = name.hasBatches ? try await pool.read { try BatchQueries.all(on: $0) } : []
        var form = ReportForm(
            report: described, filter: filter, batches: batches.reversed())
        try refuseEndless(form)
        let part = try await ledgerPart(filter, of: name)
        if filter.isCSV, part?.from != nil { throw Self.tooLong(name) }
        let from = filter.from ?? part?.from
        form.shownFrom = from
        (wanted.occurredFrom, wanted.occurredBefore) = (from, filter.before)
        var table = try await readTable(wanted, from: reports)
        if filter.isCSV { return .file(try csv(table, wanted)) }
        let isPart = from != nil || filter.before != nil
        if isPart { table.rows.reverse() }
        let asOf: HTML =
            filter.asOf.map { " As it was known at \(.time($0)), late news left out." } ?? .none
        let parts = [
            filter.currency.map { "currency \($0)" }, filter.storefront.map { "storefront \($0)" },
        ].compactMap(\.self)
        // The form is not printed, so the text names the filters.
        let only: HTML = parts.isEmpty ? .none : " Only \(parts.joined(separator: ", "))."
        return .page(
            Page(
                title: name.title,
                lead: "<p class=\"lead\">\(HTML.prose(described.lead))\(asOf)\(only)</p>\n",
                body: section("What is shown", form.html)
                    + section(
                        "Rows",
                        pages(part, filter, shown: min(table.rows.count, htmlRowsMax))
                            + table.html(
                                link: batchAddress, subscriptionLink: subscriptionAddress,
                                isSummed: !isPart)),
                asOf: filter.asOf ?? now))
    }

    private func csv(_ table: ReportTable, _ query: ReportQuery) throws -> HTTPResponse {
        guard table.rows.count <= Self.csvRowsMax else { throw Self.tooLong(query.name) }
        var renderer = ReportRenderer(query, format: .csv)
        var text = renderer.begin(table.columns)
        text += renderer.add(table.rows)
        text += renderer.end()
        var response = HTTPResponse(
            status: 200, contentType: "text/csv; charset=utf-8; header=present", text: text)
        response.headers["Content-Disposition"] =
            "attachment; filename=\"\(query.name.rawValue).csv\""
        return Self.sealed(response)
    }
}

// Reports that grow without limit.
extension Site {
    private static func tooLong(_ name: ReportName) -> PageFault {
        PageFault(
            400, "The report is too long for a page",
            "It has more than \(counted(Int64(csvRowsMax))) rows. Choose a batch, or let "
                + "<code>repricer report \(name.rawValue) --format csv</code> write all of it.")
    }

    /// Requires a batch, because the rows of all batches would be too many to read or to search.
    private func refuseEndless(_ form: ReportForm) throws {
        guard form.report.name == .priceChange, form.filter.batchID == nil else { return }
        let rows = form.batches.reduce(Int64(0)) { $0.addedClamped($1.rowCount) }
        guard rows > Int64(Self.csvRowsMax) else { return }
        throw PageFault(
            400, "Choose a batch",
            "All batches together have \(counted(rows)) rows, too many for a page. "
                + "<code>repricer report price_change --format csv</code> writes all of them.</p>\n\(form.choice)<p>"
        )
    }

    /// The part of the ledger that a page shows; nil for other reports, or where a batch is chosen.
    private func ledgerPart(
        _ filter: Filter, of name: ReportName
    ) async throws -> ReportPageQueries.Window? {
        guard name == .money, filter.batchID == nil, filter.asOf == nil, filter.from == nil else {
            return nil
        }
        return try await pool.read { connection in
            try ReportPageQueries.moneyWindow(
                before: filter.before, currency: filter.currency, storefront: filter.storefront,
                limit: filter.isCSV ? Self.csvRowsMax + 1 : Self.moneyLines, on: connection)
        }
    }

    /// Which part is shown, with links to the others.
    private func pages(
        _ part: ReportPageQueries.Window?, _ filter: Filter, shown: Int
    ) -> HTML {
        guard let part, part.from != nil || filter.before != nil else { return .none }
        let chosen = [("currency", filter.currency), ("storefront", filter.storefront)]
            .compactMap { name, value in value.map { "&\(name)=\($0)" } }.joined()
        let older: HTML =
            part.from.map { from in
                let address = "/reports/money?before=\(encoded(instantText(from)))\(chosen)"
                return "<a href=\"\(address)\">Older lines</a>."
            } ?? "These are the oldest."
        let newest: HTML =
            filter.before == nil
            ? .none
            : " <a href=\"/reports/money?\(String(chosen.dropFirst()))\">The newest lines</a>."
        let upTo: HTML = filter.before.map { " before \(.time($0))" } ?? .none
        return """
            <p class="note">\(counted(Int64(shown))) lines\(upTo), the newest first. They are a part, so they are not \
            added up. \(older)\(newest)</p>

            """
    }
}

/// The form of a report's filters.
private struct ReportForm {
    let report: ReportDescription
    let filter: Filter
    let batches: [BatchQueries.Batch]
    /// The earliest instant that is shown, where a part is.
    var shownFrom: Int64?

    /// The fields by which it is chosen.
    var choice: HTML {
        let name = report.name
        var fields: HTML = .none
        if name.hasBatches {
            let options = batches.map { batch -> HTML in
                let mark: HTML = batch.batchID == filter.batchID ? " selected" : ""
                return "<option value=\"\(batch.batchID)\"\(mark)>\(batch.name)</option>\n"
            }
            fields += """
                <label for="batch"><span>Batch</span><select id="batch" name="batch">
                <option value="">All batches</option>
                \(options)</select></label>

                """
        }
        if name.hasPast {
            fields += field(
                "as_of", "As known at (UTC)", filter.asOfText, "2026-11-01T00:00:00Z", 30)
        }
        if has("currency") { fields += field("currency", "Currency", filter.currency, "EUR", 3) }
        if has("storefront") {
            fields += field("storefront", "Storefront", filter.storefront, "DEU", 3)
        }
        if name == .revenueBridgeTotal {
            fields += field(
                "reporting_currency", "In which currency", filter.reportingCurrency, "USD", 3)
        }
        return fields.isEmpty
            ? .none
            : """
            <form method="get" action="/reports/\(name.rawValue)">
            \(fields)<button>Show</button></form>

            """
    }

    var html: HTML {
        let name = report.name
        return choice + """
            <p><a href="\(csvAddress)">These rows as CSV</a>, every column, amounts in thousandths of the currency. At a \
            terminal: <code>repricer report \(name.rawValue)\(arguments)</code>\(besides)</p>

            """
    }

    private func has(_ column: String) -> Bool { report.columns.contains { $0.name == column } }

    private func field(
        _ name: String, _ label: String, _ value: String?, _ example: String, _ size: Int
    ) -> HTML {
        """
        <label for="\(name)"><span>\(label)</span><input id="\(name)" name="\(name)" \
        value="\(value ?? "")" placeholder="\(example)" maxlength="\(size)" size="\(min(size, 21))"></label>

        """
    }

    private var csvAddress: String {
        let chosen = [
            ("batch", filter.batchID), ("as_of", filter.asOfText), ("currency", filter.currency),
            ("storefront", filter.storefront), ("reporting_currency", filter.reportingCurrency),
            ("from", shownFrom.map(instantText)), ("before", filter.before.map(instantText)),
            ("format", "csv"),
        ].compactMap { name, value in value.map { "\(name)=\(encoded($0))" } }
        return "/reports/\(report.name.rawValue)?\(chosen.joined(separator: "&"))"
    }

    /// A note that the command prints more than the shown rows, because it has no option for these filters.
    private var besides: HTML {
        let all = [
            filter.currency.map { _ in "currencies" }, filter.storefront.map { _ in "storefronts" },
            shownFrom ?? filter.before == nil ? nil : "lines",
        ].compactMap { $0 }
        return all.isEmpty ? .none : ", which prints all \(all.joined(separator: " and "))"
    }

    private var arguments: String {
        (filter.batchID.map {
            " --batch \(NamedBatch.word(for: $0, among: batches.map(\.named)))"
        } ?? "")
            + (filter.asOf.map {
                " --as-of \(RFC3339.format($0, microseconds: filter.asOfMicroseconds))"
            } ?? "")
            + (filter.reportingCurrency.map { " --reporting-currency \($0)" } ?? "")
    }
}
