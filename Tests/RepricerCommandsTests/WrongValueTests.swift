import Facts
import Foundation
import Postgres
import TestSupport
import Testing

@testable import RepricerCommands

/// Every option and argument of every command, with a value that it cannot have, through the real program: what is
/// wrong, and what would be right.
@Suite(.database) struct WrongValueTests {
    /// `FILE` is a batch file, `NOWHERE` a path in no folder, `NEW` one of nothing yet.
    struct Wrong: Sendable {
        var line: String
        var code: Int32
        var says: String

        init(_ line: String, _ code: Int32, _ says: String) {
            self.line = line
            self.code = code
            self.says = says
        }

        /// A usage error.
        init(_ line: String, _ says: String) { self.init(line, 2, says) }
    }

    private static let change = "60acfa30-5e97-4b90-a1a1-b2b3e2c1a111"
    private static let batch = PagesFixture.underWay
    private static let scenario = "scenario --sku PLAN --rule +10%"
    private static let extend = "extend one 2000000000000181 --days 3 --reason outage"
    private static let instant = "write an instant as 2026-12-01T00:00:00Z or 2026-12-01"

    private static let wrong =
        aboutBatches + aboutSubscriptions + aboutScenarios + aboutTheService + aboutSettings

    private static let aboutBatches = [
        Wrong("plan NOWHERE", 3, "NOWHERE"), Wrong("plan FILE --as-of later", instant),
        Wrong("plan FILE --rows NOWHERE", 1, "NOWHERE cannot be written"),
        Wrong("plan FILE --rejects NOWHERE", 1, "NOWHERE cannot be written"),
        Wrong("plan FILE --reporting-currency dollars", "write an ISO 4217 code, as EUR"),
        Wrong("plan FILE --grouping odd", "it is one of announced, item, subscription"),
        Wrong("plan FILE --waves 0%", "write 1% or 0.5%, at least 0.01%"),
        Wrong("submit NOWHERE --name x", 3, "NOWHERE"),
        Wrong("submit FILE --name \(String(repeating: "n", count: 201))", "give a shorter one"),
        Wrong("submit FILE --name x --plan-hash 12ab", "give the 64 digits that `repricer plan`"),
        Wrong(
            "submit FILE --name x --plan-hash \(String(repeating: "0", count: 64))", 5,
            "the plan has changed since"),
        Wrong("submit FILE --name x --plan-rows NOWHERE", 3, "NOWHERE"),
        Wrong("submit FILE --name x --rejects NOWHERE", 1, "NOWHERE cannot be written"),
        Wrong("submit FILE --name x --grouping odd", "it is one of announced, item"),
        Wrong("submit FILE --name x --waves rest,1%", "nothing is left after rest"),
        Wrong("submit FILE --name x --halt-if nonsense", "write errors>2%, the figures are errors"),
        Wrong("submit FILE --name x --holdout 99", "write 5 or 2.5, above 0 and at most 50"),
        Wrong("show nothing", 3, "nothing"),
        Wrong("show \(batch) --reporting-currency usd", "write an ISO 4217 code, as EUR"),
        Wrong("approve nothing", 3, "nothing"),
        Wrong("reject nothing --reason no", 3, "nothing"), Wrong("abort nothing", 3, "nothing"),
        Wrong("pause nothing", 3, "nothing"), Wrong("resume nothing", 3, "nothing"),
        Wrong("release nothing", 3, "nothing"), Wrong("release \(batch) --wave 0", "from 1"),
        Wrong("release \(batch) --wave 99", 5, "has 2 waves, 1 of them released"),
        Wrong("undo nothing", 3, "nothing"), Wrong("status nothing", 3, "nothing"),
        Wrong("undo \(batch) --subscription 1 --dry-run", 3, "nothing"),
        Wrong("undo \(batch) --sku nothing --dry-run", 3, "nothing"),
        Wrong("audit show --batch nothing", 3, "nothing"),
        Wrong("audit verify --head x", "give the 64 digits that audit verify printed"),
        Wrong("report nothing", "it is one of batch_summary, price_change"),
        Wrong("report money --batch nothing", 3, "nothing"),
        Wrong("report money --as-of later", instant),
        Wrong("report money --format xml", "it is one of table, csv, json, html"),
        Wrong("report revenue_bridge_total --reporting-currency usd", "write USD or EUR"),
        Wrong("close-month 2026-13", "write it as 2026-10"),
    ]

    private static let aboutSubscriptions = [
        Wrong("explain nothing PLAN 12.99", 3, "bad_transaction_id"),
        Wrong("explain 2000000000000181 NOTHING 12.99", 3, "unknown_subscription: "),
        Wrong("explain 2000000000000181 PLAN cheap", 3, "bad_price"),
        Wrong("explain 2000000000000181 PLAN 12.99 --as-of later", instant),
        Wrong("explain 2000000000000181 PLAN 12.99 --dependent-skus PLAN", 3, "dependent_self"),
        Wrong(
            "explain 2000000000000181 PLAN 12.99 --effective-on-or-after soon", 3, "malformed_row"),
        Wrong("timeline nothing", 3, "nothing"),
        Wrong("close nothing --reason no", "is no change id; `report price_change"),
        Wrong("close \(change) --reason no", 3, change),
        Wrong("extend one nothing --days 3 --reason outage", 3, "nothing"),
        Wrong("extend one 2000000000000181 --days 91 --reason outage", 3, "extends by 1 to 90"),
        Wrong("extend one 2000000000000181 --days 3 --reason fun", 3, "is none of outage (3)"),
        Wrong("\(extend) --request-id 7", 3, "leave --request-id out for a new one"),
        Wrong("extend all --product P --days 0 --reason outage", 3, "extends by 1 to 90"),
        Wrong("extend all --product P --days 1 --reason 9", 3, "is none of outage (3)"),
        Wrong("extend all --product P --days 1 --reason 3 --request-id 7", 3, "is no UUID"),
        Wrong("extend all --product P --days 1 --reason 3 --storefronts usa", 3, "as USA"),
        Wrong("extend status nothing", 3, "`repricer extend status` lists them"),
        Wrong("extend retry-failed nothing", 3, "`repricer extend status` lists them"),
        Wrong("extend give-up nothing --reason no", 3, "`repricer extend status` lists them"),
    ]

    private static let aboutScenarios = [
        Wrong("scenario --sku PLAN --rule nonsense", "write +10%, -5%, +1.50, =12.99"),
        // A question about nobody is answered, with zeros.
        Wrong("scenario --sku NOTHING --rule +10%", 0, "nobody is in the cohort: "),
        Wrong("\(scenario) --dependents NOTHING", 0, "nobody is in the cohort: "),
        Wrong("\(scenario) --storefront usa", "write ISO 3166-1 alpha-3 codes"),
        Wrong("\(scenario) --period monthly", "the App Store has P1W, P1M"),
        Wrong("\(scenario) --currency usd", "write it as USD"),
        Wrong("\(scenario) --started-before later", "write YYYY-MM-DD"),
        Wrong("\(scenario) --price-below x", "write it like 12.99"),
        Wrong("\(scenario) --price-above -3", "write it like 12.99"),
        Wrong("\(scenario) --decline-rate 101", "write a percentage such as 12.5, or own"),
        Wrong("\(scenario) --send-on later", "write a day from today on"),
        Wrong("\(scenario) --round 99", "none or an ending such as .99"),
        Wrong("\(scenario) --reporting-currency usd", "write it as USD"),
        Wrong("\(scenario) --out NOWHERE", 1, "NOWHERE cannot be written"),
        Wrong("\(scenario) --rule +20% --out b.csv --choose 3", "--choose"),
        Wrong("\(scenario) --as-of later", instant),
        Wrong("\(scenario) --html NOWHERE", 1, "NOWHERE cannot be written"),
    ]

    private static let aboutTheService = [
        Wrong("serve --only both", "it is one of scheduler, receiver"),
        Wrong("ingest NOWHERE", 1, "REPRICER_ROOT_CERTIFICATES"),
        Wrong("sync NOWHERE", 1, "REPRICER_ISSUER_ID"),
        Wrong("reconcile --since later", instant),
        Wrong("recover --lost-since later", instant),
        Wrong("recover", "give the instant of the backup"),
        Wrong("reprocess --since later", instant),
        Wrong("evidence nothing", 1, "REPRICER_ROOT_CERTIFICATES"),
        Wrong("evidence export NEW --month 2026-13", "such as 2026-03"),
        Wrong("evidence export FILE --month 2026-02", 3, "is there already"),
        Wrong("evidence verify NOWHERE", 1, "REPRICER_ROOT_CERTIFICATES"),
        Wrong("evidence verify FILE --head x", "give the 64 digits that the export printed"),
        Wrong("retention --keep 3m", "cannot be under 7m"),
        Wrong("retention --keep 13m --minutes x", "write a whole number from 0 to"),
        Wrong("outbox replay --since later", instant),
        Wrong("outbox replay --until later --all", instant),
        Wrong("test-notification --timeout 601", "write 1 to 600 seconds"),
        Wrong("rules show --as-of later", instant),
        Wrong("rules import NOWHERE", 3, "NOWHERE"),
        Wrong("rules import FILE --effective-from soon", instant),
        Wrong("history import NOWHERE", 3, "NOWHERE"),
    ]

    private static let aboutSettings = [
        Wrong("policy set ben --rows 1.5", "--rows cannot be"),
        Wrong("policy set ben --percent many", "write it as 10 or 12.5"),
        Wrong("policy set ben --monthly usd=1", "--monthly"),
        Wrong("policy set everyone --increase x", "write it as 10 or 12.5"),
        Wrong("policy set everyone --decrease 101", "at most 100"),
        Wrong("init NEW --environment Test", "it is one of Sandbox, Production"),
        Wrong("migrate --patience soon", "is no time such as 90s, 10m or 2h"),
        Wrong("migrate --migrations NOWHERE", 1, "cannot read the directory NOWHERE"),
        Wrong("migrate status --migrations NOWHERE", 1, "cannot read the directory NOWHERE"),
        Wrong("config check --for nobody", "it is one of service, pricing, finance"),
        Wrong("completion tcsh", "it is one of bash, zsh, fish"),
        Wrong("help nothing", "`repricer help` lists them"),
        Wrong("help plan nothing", "nothing"),
        Wrong("help --man FILE/x", 1, "cannot be written"),
        Wrong("status --env-file NOWHERE", 1, "NOWHERE: cannot be opened"),
        Wrong("status --clock soon", "write START@RATE"),
        Wrong("status --log-level loud", "it is one of debug, info"),
        Wrong("status --log-format xml", "it is one of text, json"),
        Wrong("status --color red", "it is one of auto, always, never"),
        Wrong("status --format xml", "it is one of table, json"),
    ]

    /// Values that may be any text. Whatever they name is found or not, and an empty one is refused like each.
    private static let free = [
        "submit --name", "undo --name", "reject --reason", "abort --reason", "pause --reason",
        "resume --reason",
        "close --reason", "extend one --note", "extend all --note", "extend all --product",
        "extend give-up --reason", "evidence --subscription", "outbox replay --subscription",
        "policy set APPROVER", "completion WORD", "init DIR", "evidence export FILE",
    ]

    @Test func wrongValue_ofEachOptionAndArgument_isTriedHere() throws {
        var tried: Set<String> = []
        for wrong in Self.wrong {
            let words = wrong.line.split(separator: " ").map(String.init)
            let command = try #require(
                RepricerCommands.all.filter { words.starts(with: $0.path) }
                    .max { $0.path.count < $1.path.count }, "\(wrong.line)")
            let options = words.filter { $0.hasPrefix("--") }
            // What is wrong stands last, or there is nothing but arguments.
            tried.formUnion(options.suffix(3).map { "\(command.name) \($0)" })
            tried.formUnion(command.positionals.map { "\(command.name) \($0.name)" })
        }
        let all = RepricerCommands.all.flatMap { command in
            command.options.filter { $0.valueName != nil }.map { "\(command.name) --\($0.name)" }
                + command.positionals.map { "\(command.name) \($0.name)" }
        }

        // Those of `init` have a suite of their own.
        let left = Set(all).subtracting(tried).subtracting(Self.free)
            .filter { !$0.hasPrefix("init --") }
        #expect(left.isEmpty, "\(left.sorted())")
    }

    @Test func wrongValue_exitsAsPromised_andSaysWhatWouldBeRight() async throws {
        try await PagesFixture.fill()
        let folder = try ScratchFolder()
        let file = try folder.file(
            "prices.csv",
            """
            original_transaction_id,sku,price,currency
            2000000000000181,PLAN,13.99,EUR

            """)
        let environment = [
            "REPRICER_DATABASE_URL": TestDatabase.url, "REPRICER_ENVIRONMENT": "Production",
            "REPRICER_BUNDLE_ID": "com.example.app",
        ]
        let paths = ["FILE": file, "NOWHERE": "\(folder.path)/no/x", "NEW": "\(folder.path)/new"]
        func typed(_ text: String) -> String {
            paths.reduce(text) { $0.replacing($1.key, with: $1.value) }
        }
        let before = try await Self.decided()

        try await withThrowingTaskGroup(of: (Wrong, Program.End).self) { group in
            var waiting = Self.wrong[...]
            func start() {
                guard let wrong = waiting.popFirst() else { return }
                let words = typed(wrong.line).split(separator: " ").map(String.init)
                group.addTask {
                    (
                        wrong,
                        try await Program.run(
                            Program.built("repricer"), words, environment: environment)
                    )
                }
            }
            for _ in 0..<4 { start() }
            while let (wrong, end) = try await group.next() {
                start()
                let said = "\(wrong.line): \(end)"
                #expect(end.code == wrong.code, "\(said)")
                #expect(end.messages.contains(typed(wrong.says)), "\(said)")
                #expect(
                    end.messages.hasPrefix("repricer: ")
                        || end.messages.hasPrefix(folder.path), "\(said)")
                #expect(end.code != 2 || end.output.isEmpty, "\(said)")
                #expect(
                    end.code != 2 || end.messages.contains("\nusage: repricer ")
                        || wrong.line.contains("--clock"), "\(said)")
            }
        }

        #expect(try await Self.decided() == before)
        #expect(!FileManager.default.fileExists(atPath: "\(folder.path)/new"))
    }

    /// What a wrong line must not add to.
    private static func decided() async throws -> [Int64] {
        let connection = try await TestDatabase.connect()
        let row = try await connection.query(
            """
            -- name: wrongValuesDecided
            SELECT (SELECT count(*) FROM repricer.batches) AS batches,
                (SELECT count(*) FROM repricer.audit_trail) AS decisions,
                (SELECT count(*) FROM repricer.price_changes) AS changes
            """
        ).one()
        await connection.close()
        return [
            try row.int64("batches"), try row.int64("decisions"), try row.int64("changes"),
        ]
    }

    /// What no command takes, with a line of each command that is right but for it.
    @Test(arguments: RepricerCommands.all.map(\.name))
    func command_withOptionsThatCannotBe_isAUsageError(_ name: String) async throws {
        let command = try #require(RepricerCommands.all.first { $0.name == name })
        let right =
            command.path + command.positionals.map { $0.choices.first ?? "x" }
            + command.options.filter(\.isRequired).flatMap {
                ["--\($0.name)=\($0.choices.first ?? "x")"]
            }
        var wrong = [
            (["--jsn"], "unknown option \"--jsn\"; did you mean \"--json\"?"),
            (["--color", "red"], "auto, always, never"),
            (["-o"], "--format needs a value"), (["--format", "yaml"], "it is one of table, "),
            (["--json", "-o", "table"], "contradict each other"),
            (["--format", "table", "--format", "json"], "--format is given twice"),
            (["--quiet=yes"], "--quiet takes no value"), (["--log-level", "loud"], "debug, info"),
        ]
        // A list takes words that follow, so that they are read as its values.
        if !command.options.contains(where: \.isRepeatable) {
            wrong.append((["-x"], "unknown option"))
            wrong.append((Array(repeating: "x", count: 3), "unexpected argument \"x\""))
        }
        for option in command.options
        where option.valueName != nil && option.choices.isEmpty && !option.isRequired {
            wrong.append((["--\(option.name)="], "--\(option.name) is"))
        }
        for option in command.options where option.valueName == nil {
            wrong.append((["--\(option.name)=x"], "--\(option.name) takes no value"))
        }

        for (options, says) in wrong {
            let outcome = await run(right + options)

            let said = "\(right + options): \(outcome)"
            #expect(outcome.code == .usage, "\(said)")
            #expect(outcome.output.isEmpty && outcome.messages.contains(says), "\(said)")
            #expect(outcome.messages.contains("usage: repricer \(name)"), "\(said)")
        }
    }
}
