import Batches
import Postgres
import Pricing
import Reports

extension Commands {
    private static let skus = ListOption(
        "sku", "SKU", "an item of the cohort; several may be given", isRequired: true)
    private static let storefronts = ListOption(
        "storefront", "S", "only subscribers of these storefronts, as USA")
    private static let period = ValueOption("period", "P", "only plans of this period, as P1M")
    private static let currency = ValueOption("currency", "C", "only this currency, as USD")
    private static let startedBefore = ValueOption(
        "started-before", "DATE", "only subscriptions that began before this day")
    private static let priceBelow = ValueOption(
        "price-below", "P", "only items that cost less today, in their own currency")
    private static let priceAbove = ValueOption(
        "price-above", "P", "only items that cost more today, in their own currency")
    private static let rules = ListOption(
        "rule", "R",
        "a new price: +10%, +1.50, =12.99, max-without-consent, +10%..+25%; one scenario each",
        isRequired: true)
    private static let declineRate = ValueOption(
        "decline-rate", "PERCENT",
        "how many of those asked decline; own (the default): as your earlier batches did")
    private static let sendOn = ListOption(
        "send-on", "DATE", "the day of the calls instead of now; one scenario each")
    private static let rounding = ValueOption(
        "round", "ENDING", "prices end so, at or below the rule's: .99; none is the default")
    private static let dependents = ListOption(
        "dependents", "SKU", "items that fall with the others, where the subscription has them")
    private static let reportingCurrency = ValueOption(
        "reporting-currency", "C", "the one currency of all sums; USD when left out")
    private static let scenarioOut = ValueOption(
        "out", "FILE", "write the chosen scenario's batch file; - is standard output")
    private static let chosen = ValueOption(
        "choose", "N", "which scenario, from 1, where there are several")
    private static let page = ValueOption("html", "FILE", "write the table as a page")

    static let scenario = Command(
        "scenario", "ask what new prices would bring and risk, before there is a batch",
        options: [
            skus, storefronts, period, currency, startedBefore, priceBelow, priceAbove, rules,
            declineRate, sendOn, rounding, dependents, reportingCurrency, scenarioOut, chosen, page,
            asOf,
        ],
        discussion: """
            The cohort are all active subscriptions that renew the item. Each row is judged as `plan` would judge it. A \
            range of percentages goes in steps of 5; +10%..+25%/2.5 names its own. The price effect is that of the \
            renewals within 12 months of the calls; consent that is not known counts as asked for. `plan` accepts the \
            file of --out as it is. Where standard output carries the batch file or the page, the table goes to \
            standard error.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        let now = try await invocation.instant(asOf, configuration)
        let known = try invocation.known(asOf)
        let wish = try ScenarioWish(
            invocation.arguments, cohort: cohort(invocation.arguments), now: now)
        guard invocation.arguments[scenarioOut] != "-" || invocation.arguments[page] != "-" else {
            throw UsageError("--out and --html cannot both be standard output")
        }
        let out = try invocation.arguments[scenarioOut].map {
            try BatchFileOutput(path: $0, dependencies: invocation.dependencies)
        }
        let table = try await invocation.withPool(configuration) { pool in
            let configuration = try await configuration.completed(by: pool)
            let environment = try configuration.knownEnvironment()
            let rules = try await pool.rules(at: now, knownAt: known)
            let judge = ScenarioJudge(
                wish.scenarios, of: wish.cohort, rules: rules, environment: environment,
                now: now)
            let decline = try await declineRate(wish, pool)
            try await out?.write(ScenarioRun.batchHeader)
            let bar = invocation.progressBar
            let forecasts = try await ScenarioRun(pool: pool, judge: judge, knownAt: known).run(
                writing: out == nil ? nil : wish.chosen,
                reporting: {
                    bar.drawIfLate(done: 0, total: 0, note: "\(counted($0)) subscriptions judged")
                }
            ) { try await out?.write($0) }
            bar.clear()
            try await out?.flush()
            return ScenarioTable(
                wish, forecasts, rules: rules.inForce(at: now), asOf: now, decline: decline)
        }
        for warning in table.warnings { invocation.note(warning) }
        if let path = invocation.arguments[page] {
            let file = try OutputFile(
                path: path, besides: [invocation.arguments[scenarioOut]].compactMap { $0 },
                dependencies: invocation.dependencies)
            try file.write(table.page)
            try file.flush()
        }
        if [scenarioOut, page].contains(where: { invocation.arguments[$0] == "-" }) {
            invocation.printAside(json: table.json, table.text)
        } else {
            try invocation.print(json: table.json, table.text)
        }
        return .done
    }

    private static func cohort(_ arguments: ParsedArguments) throws -> Cohort {
        var cohort = Cohort(skus: arguments[skus].uniqued())
        cohort.storefronts = arguments[storefronts].flatMap { $0.split(separator: ",") }
            .map(String.init)
        cohort.period = arguments[period]
        cohort.currency = arguments[currency]
        cohort.dependents = arguments[dependents].uniqued()
        cohort.startedBefore = try arguments[startedBefore].map { text in
            guard let date = CivilDate(text) else {
                throw UsageError("--started-before cannot be \(quoted(text)); write YYYY-MM-DD")
            }
            return date
        }
        cohort.priceBelow = try price(arguments, priceBelow)
        cohort.priceAbove = try price(arguments, priceAbove)
        if let period = cohort.period, case .other = Period(period) {
            throw UsageError(
                "--period cannot be \(quoted(period)); the App Store has P1W, P1M, P2M, P3M, P6M and P1Y"
            )
        }
        for storefront in cohort.storefronts where !AppStorefronts.all.contains(storefront) {
            throw UsageError(
                "--storefront cannot be \(quoted(storefront)), which the App Store does not have; write ISO 3166-1 "
                    + "alpha-3 codes, as USA or USA,CAN")
        }
        return cohort
    }

    private static func price(
        _ arguments: ParsedArguments, _ option: ValueOption
    ) throws -> Int64? {
        guard let text = arguments[option] else { return nil }
        do throws(PriceText.Fault) { return try PriceText.milliunits(decimal: text) } catch {
            throw UsageError("--\(option.name) cannot be \(quoted(text)); write it like 12.99")
        }
    }

    private static func declineRate(
        _ wish: ScenarioWish, _ pool: PostgresPool
    ) async throws -> ScenarioWish.Decline {
        if let given = wish.declineBasisPoints { return .init(basisPoints: given) }
        let (asked, declined) = try await pool.withTransaction {
            try CohortQueries.declines(of: wish.cohort.skus, on: $0)
        }
        guard asked > 0 else { return .init(basisPoints: 0, asked: 0) }
        return .init(basisPoints: declined * 10_000 / asked, asked: asked)
    }

    /// What the options ask for, once they are read.
    struct ScenarioWish: Sendable {
        struct Decline: Sendable {
            var basisPoints: Int64
            /// The number of earlier rows from which the rate was computed; nil where a person gave the rate.
            var asked: Int64?
        }

        let cohort: Cohort
        let scenarios: [Scenario]
        /// As they are typed, with their day where one was given.
        let labels: [String]
        let chosen: Int?
        /// nil for the rate of earlier batches.
        let declineBasisPoints: Int64?
        let reportingCurrency: String

        static let scenariosMax = 20

        init(_ arguments: ParsedArguments, cohort: Cohort, now: Instant) throws {
            self.cohort = cohort
            reportingCurrency = arguments[Commands.reportingCurrency] ?? "USD"
            for code in [reportingCurrency, cohort.currency].compactMap({ $0 }) {
                guard Currency.apple.contains(where: { $0.code == code }) else {
                    throw UsageError(
                        "\(quoted(code)) is not a currency of the App Store; write it as USD")
                }
            }
            guard let ending = PriceEnding(arguments[rounding] ?? "none") else {
                throw UsageError("--round takes none or an ending such as .99")
            }
            var rules: [ScenarioRule] = []
            for text in arguments[Commands.rules] {
                do throws(ScenarioRule.Fault) { rules += try ScenarioRule.list(text) } catch {
                    throw UsageError("--rule: \(error)")
                }
            }
            var days: [(day: String?, at: Instant)] = []
            for text in arguments[sendOn] {
                guard let date = CivilDate(text), date.startAt >= now.day.startAt else {
                    throw UsageError(
                        "--send-on cannot be \(quoted(text)); write a day from today on, YYYY-MM-DD"
                    )
                }
                days.append((text, max(now, date.startAt)))
            }
            if days.isEmpty { days = [(nil, now)] }
            let pairs = days.flatMap { day in rules.map { (rule: $0, day: day) } }
            guard pairs.count <= Self.scenariosMax else {
                throw UsageError(
                    "\(pairs.count) scenarios; at most \(Self.scenariosMax) fit one table")
            }
            scenarios = pairs.map { Scenario(rule: $0.rule, ending: ending, sentAt: $0.day.at) }
            labels = pairs.map { $0.rule.text + ($0.day.day.map { " on \($0)" } ?? "") }
            declineBasisPoints = try Self.declineRate(arguments[Commands.declineRate])
            chosen = try Self.chosen(arguments, of: pairs.count)
        }

        private static func declineRate(_ text: String?) throws(UsageError) -> Int64? {
            guard let text, text != "own" else { return nil }
            let digits = text.hasSuffix("%") ? String(text.dropLast()) : text
            if digits.utf8.allSatisfy({ $0 == UInt8(ascii: "0") }) { return 0 }
            // What is wrong with the number is said in one sentence for all.
            guard let percent = try? PriceText.milliunits(decimal: digits), percent <= 100_000,
                percent % 10 == 0
            else {
                throw UsageError(
                    "--decline-rate cannot be \(quoted(text)); write a percentage such as 12.5, or own"
                )
            }
            return percent / 10
        }

        private static func chosen(
            _ arguments: ParsedArguments, of count: Int
        ) throws(UsageError) -> Int? {
            guard let text = arguments[Commands.chosen] else {
                guard arguments[scenarioOut] == nil || count == 1 else {
                    throw UsageError("--out needs --choose N, since there are \(count) scenarios")
                }
                return arguments[scenarioOut] == nil ? nil : 0
            }
            guard arguments[scenarioOut] != nil else {
                throw UsageError("--choose says which scenario --out writes; --out is missing")
            }
            guard let number = Int(text), (1...count).contains(number) else {
                throw UsageError("--choose takes a number from 1 to \(count)")
            }
            return number - 1
        }
    }
}

/// A batch file that several tasks write in turn.
private actor BatchFileOutput {
    private let file: OutputFile

    init(path: String, dependencies: Dependencies) throws {
        file = try OutputFile(path: path, dependencies: dependencies)
    }

    func write(_ text: String) throws { try file.write(text) }

    func flush() throws { try file.flush() }
}
