import Batches
package import Facts
package import HTTP
import Postgres
import Pricing
import Reports
package import ServiceKit

/// The read-only pages: what each address shows, in one frame.
package struct Site: Sendable {
    /// What the pages say about their program.
    package struct About: Sendable {
        package var version: String
        package var bundleID: String
        package var environment: String
        /// Whether the clock is virtual, so that nothing shown has happened.
        package var isRehearsal: Bool
        /// The price changes that may be called in a thousand seconds; nil where that is not known.
        package var callsPerThousandSeconds: Int?
        /// How long after a due statement a change counts as silent, in milliseconds.
        package var silentAfter: Int64

        package init(
            version: String, bundleID: String, environment: String, isRehearsal: Bool = false,
            callsPerThousandSeconds: Int? = nil, silentAfter: Int64 = 86_400_000
        ) {
            self.version = version
            self.bundleID = bundleID
            self.environment = environment
            self.isRehearsal = isRehearsal
            self.callsPerThousandSeconds = callsPerThousandSeconds
            self.silentAfter = silentAfter
        }
    }

    let pool: DatabasePool
    let reports: ReportStore
    let clock: any WallClock
    let about: About
    let log: Log
    let home: Kept<String, HomeFigures>
    let batches: Kept<String, BatchFacts>
    /// The late rows of a batch. Counting them needs the calls of all other batches.
    let lateRows: Kept<String, Int>
    /// The figures of the stored plan of a batch, which nothing changes any more.
    let plans: Kept<String, BatchFigures>
    let outlooks: Kept<ApprovalKey, ApprovalFacts.Outlook>

    /// What was decided of a batch since is none of an older outlook.
    struct ApprovalKey: Hashable, Sendable {
        var batchID: String
        var awaitsApproval: Bool
        var state: String
        var releasedWave: Int
        var firstApprovers: [String]
    }

    /// How many batches keep their figures.
    private static let batchesKept = 64
    /// How long a page waits for the first count of a batch before it is shown without it.
    private static let countPatience: Duration = .seconds(2)
    /// After how many seconds a page that waits for its first count, or for a newer one, is loaded again.
    static let firstCountSeconds = 3

    /// - Parameter pool: A pool for the pages alone, so that a slow page takes no connection from delivery.
    package init(pool: DatabasePool, clock: any WallClock, about: About, log: Log) {
        self.pool = pool
        let reports = ReportStore(pool: pool)
        self.reports = reports
        self.clock = clock
        self.about = about
        self.log = log
        home = Kept(keysMax: 1) { _ in
            try await HomeFigures.read(pool, now: clock.nowMilliseconds())
        }
        let rate = about.callsPerThousandSeconds
        lateRows = Kept(keysMax: Self.batchesKept) { id in
            guard let rate else { return 0 }
            return try await pool.withTransaction {
                try OpenCallQueries.lateRowCount(
                    of: id, callsPerThousandSeconds: rate, now: clock.nowMilliseconds(), on: $0)
            }
        }
        // These pages show when they were counted, so an older count is acceptable, and readers need not wait for a
        // newer one.
        batches = Kept(
            keysMax: Self.batchesKept, isOld: .seconds(600), patienceWithOld: .milliseconds(200),
            patienceWithNone: Self.countPatience
        ) { id in
            try await BatchFacts.read(
                id, pool, reports, clock: clock, silentAfter: about.silentAfter)
        }
        plans = Kept(
            keysMax: Self.batchesKept, fresh: .seconds(86_400), isOld: .seconds(86_400),
            patienceWithNone: Self.countPatience
        ) { id in
            try await pool.withTransaction(.repeatableRead) { connection in
                let terms = try ShowQueries.terms(of: id, on: connection)
                return try ShowQueries.figures(
                    of: id, asOf: Instant(milliseconds: terms.plannedAsOf), on: connection)
            }
        }
        outlooks = Kept(
            keysMax: Self.batchesKept, isOld: .seconds(600), patienceWithOld: .milliseconds(200),
            patienceWithNone: Self.countPatience
        ) { key in
            try await pool.withTransaction(.repeatableRead) { connection in
                try ApprovalFacts.Outlook.count(
                    key.batchID, awaitsApproval: key.awaitsApproval,
                    now: clock.nowMilliseconds(), on: connection)
            }
        }
    }

    /// Seconds between two loads of a live page.
    static let refreshSeconds = 10

    /// The page of a request's path, with the name of its route.
    package func page(
        of request: HTTPRequest
    ) -> (route: String, answer: @Sendable () async -> HTTPResponse) {
        let segments = request.pathSegments
        let query = request.query
        let (route, place, show) = find(segments, query)
        return (
            route,
            {
                do {
                    let answer = try await show()
                    switch answer {
                    case .page(let page): return response(200, page, at: place, query)
                    case .file(let file): return file
                    case .redirect(let address): return Self.redirect(to: address)
                    }
                } catch {
                    return failure(error, route: route, at: place, query)
                }
            }
        )
    }

    private typealias Found = (
        route: String, place: Place, show: @Sendable () async throws -> Answer
    )

    private func find(_ segments: [String], _ query: [String: [String]]) -> Found {
        let rest = segments.dropFirst()
        switch (segments.first, rest.count, rest.first) {
        case (nil, _, _):
            return ("index", .batches, { .page(try await homePage()) })
        case ("batches", 1, let id?):
            return ("batch", .batches, { .page(try await batchPage(id)) })
        case ("batches", 2, let id?) where segments.last == "approval":
            return (
                "approval", .batches,
                { .page(try await approvalPage(id, currency: Filter.currency(query) ?? "USD")) }
            )
        case ("subscriptions", 1, let id?):
            return ("subscription", .search, { .page(try await subscriptionPage(id)) })
        case ("search", 0, _):
            return ("search", .search, { try await searchPage(query) })
        case ("reports", 0, _):
            return ("reports", .reports, { .page(try await reportsPage()) })
        case ("reports", 1, let name?):
            return ("report", .reports, { try await reportPage(name, query) })
        case ("health", 0, _):
            return ("health", .health, { .page(try await healthPage()) })
        case (_?, _, _):
            return (
                "none", .otherPage,
                {
                    throw PageFault(
                        404, "There is no such page",
                        "Check the address, or start from the <a href=\"/\">batches</a>.")
                }
            )
        }
    }
}

/// The answer of a page.
enum Answer: Sendable {
    case page(Page)
    case file(HTTPResponse)
    /// The address of the page to show instead.
    case redirect(String)
}

/// The content of a page, without its frame.
struct Page: Sendable {
    var title: String
    var lead: HTML = .none
    var body: HTML
    /// The instant that it shows, in UTC milliseconds.
    var asOf: Int64
    /// Whether it changes by itself and so reloads.
    var isLive = false
    /// After how many seconds it is loaded again, where that differs from the usual time.
    var refreshSeconds: Int?
}

/// The section of the site to which a page belongs.
enum Place: String, CaseIterable, Sendable {
    case batches, reports, health, search, otherPage

    static let inNavigation: [Place] = [.batches, .reports, .health]

    var address: String { self == .batches ? "/" : "/\(rawValue)" }
    var title: String { rawValue.prefix(1).uppercased() + rawValue.dropFirst() }
}

/// Why there is nothing to show, and what to do about it.
struct PageFault: Error {
    var status: Int
    var title: String
    var remedy: HTML
    /// Whether the fault ends by itself, so that the page reloads. A screen on a wall has no one to reload it.
    var passes: Bool

    init(_ status: Int, _ title: String, _ remedy: HTML, passes: Bool = false) {
        self.status = status
        self.title = title
        self.remedy = remedy
        self.passes = passes
    }
}

extension Site {
    private func response(
        _ status: Int, _ page: Page, at place: Place, _ query: [String: [String]] = [:]
    ) -> HTTPResponse {
        let isStill = query["refresh"]?.last == "off"
        let footer: HTML = """
            <footer class="foot"><p>As of \(.time(page.asOf)). \(about.environment), \(about.bundleID)\
            \(about.isRehearsal ? ", a rehearsal on a virtual clock" : ""). repricer \(about.version).\
            \(refreshing(page, isStill: isStill))</p></footer>

            """
        let document = HTMLDocument(
            title: page.title, lead: page.lead, body: page.body,
            header: header(place, search: place == .search ? query["q"]?.last ?? "" : ""),
            footer: footer,
            refreshSeconds: page.isLive && !isStill
                ? page.refreshSeconds ?? Self.refreshSeconds : nil)
        return Self.sealed(.html(status, document.text))
    }

    /// Slow readers, and users of screen readers, must be able to stop it.
    private func refreshing(_ page: Page, isStill: Bool) -> HTML {
        guard page.isLive else { return .none }
        guard !isStill else {
            return " <span class=\"screen\"><a href=\"?\">Reload by itself again</a>.</span>"
        }
        return """
             <span class="screen">The page reloads every \(page.refreshSeconds ?? Self.refreshSeconds) seconds; \
            <a href="?refresh=off">stop that</a>.</span>
            """
    }

    private func header(_ place: Place, search: String) -> HTML {
        let links = Place.inNavigation.map { entry -> HTML in
            let mark: HTML = entry == place ? " aria-current=\"page\"" : ""
            return "<li><a href=\"\(entry.address)\"\(mark)>\(entry.title)</a></li>"
        }
        return """
            <a class="skip" href="#content">Skip to the content</a>
            <header class="site"><div><a class="brand" href="/">repricer</a>
            <nav aria-label="Main"><ul>\(links)</ul></nav>
            <form role="search" action="/search" method="get"><label for="q">\
            <span class="quiet">Subscription, customer token, item or batch</span>\
            <input id="q" name="q" type="search" maxlength="\(Self.searchMax)" required \
            placeholder="Subscription, customer, item" value="\(search)"></label>\
            <button>Search</button></form></div></header>

            """
    }

    private func failure(
        _ error: any Error, route: String, at place: Place, _ query: [String: [String]]
    ) -> HTTPResponse {
        let fault: PageFault
        switch error {
        case let own as PageFault: fault = own
        case let report as ReportError: fault = PageFault(report)
        default:
            log.warning("status page failed", ["page": route, "why": "\(error)"])
            fault = .away
        }
        if fault.status >= 500, error is ReportError {
            log.warning("status page failed", ["page": route, "why": "\(error)"])
        }
        let page = Page(
            title: fault.title, body: "<section><p>\(fault.remedy)</p></section>\n",
            asOf: clock.nowMilliseconds(), isLive: fault.passes)
        return response(fault.status, page, at: place, query)
    }

    /// Sets headers so that only this page and its own style sheet may be loaded or run, and it may not be cached or
    /// framed.
    static func sealed(_ response: HTTPResponse) -> HTTPResponse {
        var response = response
        response.headers["Cache-Control"] = "no-store"
        response.headers["Content-Security-Policy"] = HTMLDocument.contentSecurityPolicy
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
        return response
    }

    private static func redirect(to address: String) -> HTTPResponse {
        var response = sealed(.text(303, "see \(address)\n"))
        response.headers["Location"] = address
        return response
    }
}

extension PageFault {
    static let away = PageFault(
        503, "The database cannot be read",
        "The pages are here again when it is. The log of the service says what is wrong; "
            + "<code>repricer config check</code> tells more.", passes: true)

    static func noBatch(_ text: String) -> PageFault {
        PageFault(
            404, "There is no such batch",
            "No batch has the id <code>\(String(text.prefix(80)))</code>. The <a href=\"/\">batches</a> are listed with links to "
                + "their pages; the search finds one by its name.")
    }

    fileprivate init(_ error: ReportError) {
        switch error {
        case .unknownBatch(let text): self = .noBatch(text)
        case .ambiguousBatch(let sentence):
            self.init(400, "Several batches are called so", "\(sentence).")
        case .hasNoBatches(let name):
            self.init(
                400, "This report has no batches",
                "\(name.title) is about the whole installation: <a href=\"/reports/\(name.rawValue)\">show it without a batch</a>."
            )
        case .hasNoPast(let name):
            self.init(
                400, "This report cannot look back",
                "\(name.title) tells what is known now: <a href=\"/reports/\(name.rawValue)\">show it without an instant</a>."
            )
        case .notYet(let why):
            self.init(
                400, "This instant cannot be asked about",
                "\(why). Give an instant of the past, or leave it out for what is known now.")
        case .tooLarge(let name, let why):
            self.init(
                500, "A sum is too large",
                "\(name.title): \(why). <a href=\"/reports/money\">Money</a> shows each line.")
        // The server cancels a statement that takes longer than a page may take.
        case .failed(let why) where why.contains("[\(SQLState.queryCanceled)]"):
            self.init(
                503, "This report takes too long for a page",
                "Choose a batch, or let <code>repricer report</code> write it, which may take its time."
            )
        case .notReadable, .failed:
            self.init(500, "The report cannot be read", "\(error.description).")
        case .unavailable: self = .away
        }
    }
}

/// The address of a batch's page, and of a subscription's.
func batchAddress(_ id: String) -> String { "/batches/\(PercentCoding.encode(id))" }
func subscriptionAddress(_ id: String) -> String { "/subscriptions/\(PercentCoding.encode(id))" }

/// The link to a subscription. No line breaks within the id, so that it can be read as a whole.
func subscriptionLink(_ id: String) -> HTML {
    "<a class=\"id\" href=\"\(subscriptionAddress(id))\">\(id)</a>"
}

/// A notice at the top of a page: something that a person must know or do.
struct Notice {
    enum Kind: String {
        case alarm, warn, calm
    }

    var kind: Kind
    var title: String
    var text: HTML
    /// Whether calls wait for it, though nothing is wrong.
    var holdsCalls: Bool

    init(_ kind: Kind, _ title: String, _ text: HTML, holdsCalls: Bool = false) {
        self.kind = kind
        self.title = title
        self.text = text
        self.holdsCalls = holdsCalls
    }
}

extension [Notice] {
    var html: HTML {
        guard !isEmpty else { return .none }
        let items = map { notice -> HTML in
            "<li class=\"\(notice.kind.rawValue)\"><strong>\(notice.title)</strong> \(notice.text)</li>\n"
        }
        return "<ul class=\"notices\">\n\(items)</ul>\n"
    }
}

/// One figure under its name.
func card(_ name: String, _ value: HTML, _ more: HTML = .none) -> HTML {
    """
    <li><span class="name">\(name)</span><span class="value">\(value)</span>\
    <span class="more">\(more)</span></li>

    """
}

func cards(_ cards: [HTML]) -> HTML {
    cards.isEmpty ? .none : "<ul class=\"cards\">\n\(cards)</ul>\n"
}
