import Testing

@Suite struct DocumentReferenceTests {
    @Test func links_ofADocument_areItsOwnTargets() {
        let markdown = "see [a](b/c.md#d-e) and [x](https://example.com/a), [here](#top)"

        #expect(DocumentReferences.links(markdown) == ["b/c.md#d-e", "#top"])
    }

    @Test func anchors_ofHeadings_areTheirLinks() {
        let markdown = """
            # Silence after a 429
            ```sh
            # no heading
            ```
            ## `test-notification`, twice
            """

        #expect(
            DocumentReferences.anchors(markdown)
                == ["silence-after-a-429", "test-notification-twice"])
    }

    @Test(arguments: [
        ("b.md", true), ("b.md#top", true), ("b.md#bottom", false), ("../a.md", true),
        ("./c.md", false), ("#top", true), ("#bottom", false), ("..", true), ("../d", false),
    ])
    func broken_ofALink_saysWhetherItLeadsSomewhere(_ link: String, _ isFound: Bool) {
        let broken = DocumentReferences.broken(
            [link], of: "e/f/x.md", among: ["e/a.md", "e/f/b.md", "e/f/x.md"]
        ) { _ in ["top"] }

        #expect(broken == (isFound ? [] : [link]))
    }

    @Test func paths_inBackticks_areNamed() {
        let markdown = """
            `Sources/A/B.swift`, `Tests/floor`, `Deploy/torture --seed 1`, `A/B.swift`, `Migrations/NNNN_what.sql`,
            `Sources/NOUN/Verb.swift`, `Sources/Ledger/…Queries.swift`, `Deploy/docs/README.md`
            """

        #expect(
            DocumentReferences.paths(markdown)
                == ["Sources/A/B.swift", "Tests/floor", "Deploy/docs/README.md"])
    }

    @Test func road_belowItsHeading_isTheFilesOfItsTable_inTheirOrder() {
        let page = """
            # Top
            `A/Before.swift`

            ## A road
            Told in `A/Text.swift`.
            | step | files |
            | --- | --- |
            | one | `B/Second.swift`, `Migrations/0001_a.sql` |
            | two | `A/First.swift` |

            ## Another road
            | one | `C/Third.swift` |
            """

        let road = DocumentReferences.road(page, below: "A road")

        #expect(
            road == ["Sources/B/Second.swift", "Migrations/0001_a.sql", "Sources/A/First.swift"])
        #expect(DocumentReferences.road(page, below: "No road") == [])
    }

    @Test func alarms_ofASource_areItsErrorsAndWarnings() {
        let source = SwiftText(
            """
            log.error(isOne ? "a" : "b", ["c": "d"])
            harness.log.warning("e")
            log.notice("f")
            Rounds(log: log, failure: "g", idleWait: wait)
            log.error(failure, ["h": "i"])
            throw.error("j")
            """)

        #expect(DocumentReferences.alarms(source) == ["a", "b", "e", "g"])
    }

    @Test func metrics_ofASource_areWhatItDescribesAndWrites() {
        let source = SwiftText(
            """
            metrics.declareGauge("repricer_a", "text")
            metrics.increment(\n"repricer_b_total", labels: ["c": "repricer_c"])
            grant("repricer_service")
            """)

        #expect(DocumentReferences.metrics(source) == ["repricer_a", "repricer_b_total"])
        #expect(
            DocumentReferences.metrics(named: "`repricer_a{x=\"1\"} > 0` as repricer_service")
                == ["repricer_a"])
    }

    @Test func metrics_ofAHistogram_areOne() {
        let query = "rate(repricer_a_seconds_bucket[5m]) / repricer_a_seconds_count"

        #expect(DocumentReferences.metrics(named: query) == ["repricer_a_seconds"])
    }

    @Test func alerts_ofRulesAndRunbook_areNamedWithTheirEntries() {
        let rules = """
              - alert: RepricerA
                annotations: {runbook_url: Deploy/docs/RUNBOOK.md#a-b}
              - alert: RepricerB
                expr: up == 0
            """
        let runbook = "### A b\n- **Alert**: `RepricerA`, `RepricerC`\n- **Meaning**: `RepricerD`\n"

        #expect(DocumentReferences.alerts(ofRules: rules) == ["RepricerA": "a-b"])
        #expect(
            DocumentReferences.alerts(ofRunbook: runbook)
                == ["RepricerA": "a-b", "RepricerC": "a-b"])
    }

    @Test func promises_withoutATestThatRuns_areFound() {
        let tests = TestRules.tests(
            SwiftText(
                """
                @Test func a_b_c() {}
                @Test(arguments: [1])
                func d_e_f(_ n: Int) {}
                func helper_of_tests() {}
                let value_of_helper = 1
                """))
        let page = """
            | who | can | cannot, and why | tests |
            | --- | --- | --- | --- |
            | a | b | c | `a_b_c`, `d_e_f` |
            | no promise | b | | |
            | can do | nothing | | `a_b_c` |
            | by command | b | c | `Deploy/try` |
            | none | b | c | |
            | none, and can | nothing | | |
            | a helper's | b | c | `helper_of_tests` |
            | a value | b | c | `value_of_helper` |
            | one of two | b | c | `a_b_c`, `gone_and_forgotten` |
            | no command | b | c | `Deploy/gone` |
            Text.
            | setting | value |
            | --- | --- |
            | a | b |
            """

        let found = DocumentReferences.promisesWithoutATest(
            page, tests: tests, paths: ["Deploy/try"])

        #expect(tests == ["a_b_c", "d_e_f"])
        #expect(
            found.map { $0.split(separator: "|")[0].description } == [
                " none ", " none, and can ", " a helper's ", " a value ", " one of two ",
                " no command ",
            ])
    }

    @Test func panels_ofADashboard_areThoseThatAsk() throws {
        let json = """
            {"panels":[{"type":"row","title":"r"},{"type":"stat","title":"t","description":"d",
            "fieldConfig":{"defaults":{"unit":"s"}},"targets":[{"expr":"repricer_a"}]},{"type":"x"}]}
            """

        let panels = try DocumentReferences.panels(json)

        #expect(panels.map(\.title) == ["t", "?"])
        #expect(panels.map(\.unit) == ["s", ""])
        #expect(panels.map(\.queries) == [["repricer_a"], []])
    }

    @Test func logLines_ofTheRunbook_areThoseOfItsTable() {
        let runbook = """
            | `no` | line |
            | **Log lines** | |
            | `a`, `b; …` | [A](#a) |
            | `c` | `d` |
            | **What a command prints** | |
            | `e` | [E](#e) |
            """

        #expect(DocumentReferences.logLines(runbook) == ["a", "b; …", "c"])
        #expect(DocumentReferences.isQuote("b; …", of: "b; more"))
        #expect(!DocumentReferences.isQuote("b", of: "b; more"))
    }
}
