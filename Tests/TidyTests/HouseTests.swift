import Foundation
import Pricing
import TestSupport
import Testing

/// The rules of the house, held against the repository itself.
@Suite(.ownThread) struct HouseTests {
    let repository: Repository

    init() throws { repository = try Repository.shared.get() }

    @Test func files_inAllFolders_areFound() {
        #expect(repository.files(in: ["Sources"]).count > 100)
        #expect(repository.files(in: ["Tests"]).contains { $0.path.hasSuffix("/HouseTests.swift") })
    }

    @Test func files_inSourcesAndTests_areShort() {
        let sources = repository.findings(in: ["Sources"]) {
            SizeRules.longFile($0, linesMax: SizeRules.fileLinesMax)
        }
        let tests = repository.findings(in: ["Tests"]) {
            SizeRules.longFile($0, linesMax: SizeRules.testFileLinesMax)
        }

        #expect(sources + tests == [])
    }

    @Test func functions_inSourcesAndTests_areShort() {
        #expect(repository.findings(in: ["Sources", "Tests"], SizeRules.longFunctions) == [])
    }

    @Test func tests_everywhere_run() {
        #expect(repository.findings(in: ["Tests"], TestRules.testsThatNeverRun) == [])
    }

    @Test func sources_whenInputIsWrong_doNotTrap() {
        #expect(repository.findings(in: ["Sources"], SafetyRules.traps) == [])
    }

    @Test func sources_whenAnErrorIsDropped_sayWhy() {
        #expect(repository.findings(in: ["Sources"], SafetyRules.silentErrors) == [])
    }

    @Test func switches_overOwnEnums_haveNoDefault() {
        let enums = repository.files(in: ["Sources"]).flatMap { SafetyRules.enumCases($0.text) }

        #expect(enums.contains(Set(ChangeState.allCases.map { "\($0)" })))
        #expect(
            repository.findings(in: ["Sources"]) { SafetyRules.defaults($0, enums: enums) } == [])
    }

    /// A slice keeps its SQL in a file `…Queries.swift` beside its code.
    @Test func sql_outsideOfQueries_isNowhere() {
        let found = repository.findings(
            in: ["Sources"], except: ["Sources/Facts", "Sources/Postgres"], SQLRules.statements
        ).filter { !$0.contains("Queries.swift") && !$0.contains("Queries+") }

        #expect(found == [])
    }

    @Test func queries_always_takeTheTimeAsParameter() {
        let found = repository.findings(in: ["Sources"], SQLRules.clocks).filter {
            $0.hasPrefix("Sources/Facts/") || $0.contains("Queries")
        }

        #expect(repository.paths.count { $0.contains("Queries.swift") } > 30)
        #expect(found == [])
    }

    @Test func topLevel_always_isTheAgreedOne() {
        #expect(DocumentRules.strays(ofPaths: repository.paths) == [])
    }

    @Test func folders_ofAModule_needEachOtherInNoCircle() {
        let modules = Dictionary(grouping: repository.files(in: ["Sources"])) {
            $0.path.split(separator: "/").dropFirst().first.map(String.init) ?? ""
        }
        var circles: [String] = []
        var uses = 0
        for (module, files) in modules {
            let needs = FolderRules.uses(
                files.map { file in
                    let folders = file.path.split(separator: "/").dropFirst(2).dropLast()
                    return (folders.joined(separator: "/"), file.text)
                })
            uses += needs.values.map(\.count).reduce(0, +)
            circles += FolderRules.circles(needs).map { "\(module)/\($0)" }
        }

        #expect(uses > 50)
        #expect(circles.sorted() == [])
    }

    @Test func stateDiagram_always_showsTheStatesOfAChange() throws {
        let states = DocumentRules.diagramStates(try Repository.text("Sources/README.md"))

        #expect(states == Set(ChangeState.allCases.map(\.rawValue)))
    }

    /// `Migrations/README.md`: what was known at an instant.
    @Test func statements_thatReplaceWhatWasKnown_keepItAndMarkFigures() throws {
        let migrations = repository.paths.filter {
            $0.wholeMatch(of: /Migrations\/[0-9]{4}_.*\.sql/) != nil
        }
        let sources = repository.paths.filter {
            $0.hasPrefix("Sources/") && $0.hasSuffix(".swift")
                && ($0.contains("Queries") || $0.hasPrefix("Sources/Facts/"))
        }
        let found = try (migrations + sources).flatMap { path in
            try VersionRules.unkeptWrites(Repository.text(path)).map { "\(path):\($0)" }
        }
        let triggers = try migrations.flatMap { try VersionRules.triggers(Repository.text($0)) }

        #expect(found == [])
        #expect(triggers == [])
    }

    @Test func migrations_always_sayWhyAndWhatTheyLock() throws {
        let migrations = repository.paths.filter {
            $0.wholeMatch(of: /Migrations\/[0-9]{4}_.*\.sql/) != nil
        }
        let found = try migrations.flatMap { path in
            DocumentRules.migrationHead(try Repository.text(path)).map { "\(path) lacks \($0)" }
        }

        #expect(!migrations.isEmpty)
        #expect(found == [])
    }

    @Test func modules_always_importWhatTheTableDrawsAndTheManifestDeclares() throws {
        let declared = ModuleRules.declared(SwiftText(try Repository.text("Package.swift")))
        let systemLibraries = Set(
            declared.keys.filter { name in
                repository.paths.contains("Sources/\(name)/module.modulemap")
            })
        let drawn = ModuleRules.drawn(
            try Repository.text("Sources/README.md"), systemLibraries: systemLibraries)
        var imported = declared.mapValues { _ in Set<String>() }
        for file in repository.files(in: ["Sources"]) {
            let module = file.path.split(separator: "/").dropFirst().first.map(String.init) ?? ""
            imported[module, default: []].formUnion(
                ModuleRules.imports(file.text).intersection(declared.keys))
        }

        #expect(
            ModuleRules.differences(drawn, "Sources/README.md", declared, "Package.swift") == [])
        #expect(ModuleRules.differences(imported, "imports", declared, "Package.swift") == [])
    }

    @Test func links_inDocuments_leadSomewhere() throws {
        let documents = repository.paths.filter { $0.hasSuffix(".md") }
        let found = try documents.flatMap { path in
            let links = DocumentReferences.links(try Repository.text(path))
            return DocumentReferences.broken(links, of: path, among: repository.paths) { target in
                // A folder has no headings.
                (try? Repository.text(target)).map(DocumentReferences.anchors) ?? []
            }.map { "\(path): \($0)" }
        }

        #expect(documents.count > 5)
        #expect(found == [])
    }

    @Test func paths_inDocuments_exist() throws {
        let found = try repository.paths.filter { $0.hasSuffix(".md") }.flatMap { document in
            DocumentReferences.paths(try Repository.text(document))
                .filter { !DocumentReferences.exists($0, among: repository.paths) }
                .map { "\(document): \($0)" }
        }

        #expect(found == [])
    }

    /// Who follows a row, or a notification, reads these files in this order, so they must be there and few.
    @Test(arguments: [("The road of one row", 35), ("The road of one signedPayload", 22)])
    func road_ofTheSources_isShort_andLeadsThroughFilesThatExist(_ road: String, _ most: Int) throws
    {
        let files = DocumentReferences.road(
            try Repository.text("Sources/README.md"), below: road)

        #expect(files.count > most / 2 && files.count <= most)
        #expect(Set(files).count == files.count)
        #expect(files.filter { !repository.paths.contains($0) } == [])
    }

    @Test func release_isTheNewestOfTheChangelog() throws {
        let release = try Repository.text("Sources/CRelease/release.c")
        let changelog = try Repository.text("Deploy/docs/CHANGELOG.md")
        let version = try #require(
            release.firstMatch(of: /repricer_version\(void\) { return "(.+)"; }/)?.1)
        let day = try #require(
            release.firstMatch(of: /repricer_version_day\(void\) { return "(.+)"; }/)?.1)

        let entries = changelog.matches(of: /\n## \[([0-9.]+)\] - ([0-9-]+)\n/)
            .map { "\($0.1) \($0.2)" }

        #expect(entries.first == "\(version) \(day)")
    }

    @Test func errorsAndWarnings_ofTheProduct_areInTheRunbook() throws {
        let quoted = DocumentReferences.logLines(try Repository.text("Deploy/docs/RUNBOOK.md"))
        let sources = repository.files(in: ["Sources"], except: Self.aroundTheProduct).map(\.text)
        let alarms = sources.reduce(into: Set()) { $0.formUnion(DocumentReferences.alarms($1)) }
        let texts = Set(sources.flatMap(\.tokens).filter { $0.kind == .string }.map(\.text))

        #expect(alarms.count > 20)
        #expect(
            alarms.filter { alarm in
                !quoted.contains { DocumentReferences.isQuote($0, of: alarm) }
            } == [])
        #expect(
            quoted.filter { quote in
                !texts.contains { DocumentReferences.isQuote(quote, of: $0) }
            } == [])
    }

    @Test func metrics_ofTheProduct_areInOperations() throws {
        let operations = try Repository.text("Deploy/docs/OPERATIONS.md")
        let runbook = try Repository.text("Deploy/docs/RUNBOOK.md")
        let named = DocumentReferences.metrics(named: operations)
        let metrics = repository.files(in: ["Sources"], except: Self.aroundTheProduct)
            .reduce(into: Set()) { $0.formUnion(DocumentReferences.metrics($1.text)) }

        #expect(named.symmetricDifference(metrics) == [])
        #expect(DocumentReferences.metrics(named: runbook).subtracting(named) == [])
    }

    /// The rules and the table of alerts are one list: an entry of the runbook, and a rule or more that lead to it.
    @Test func alerts_askMetricsOfTheProduct_andLeadToTheRunbook_asOperationsSays() throws {
        let rules = try Repository.text("Deploy/monitoring/alerts.yml")
        let operations = try Repository.text("Deploy/docs/OPERATIONS.md")
        let runbook = try Repository.text("Deploy/docs/RUNBOOK.md")
        let named = DocumentReferences.metrics(named: operations)
        let entries = Set(rules.matches(of: /RUNBOOK\.md#([a-z0-9-]+)/).map { String($0.1) })
        let table = operations.split(separator: "### Alerts").last.map {
            $0.split(separator: "### Metrics").first ?? $0
        }
        let told = Set((table ?? "").matches(of: /RUNBOOK\.md#([a-z0-9-]+)/).map { String($0.1) })
        let headings = Set(
            runbook.matches(of: /\n###? ([^\n]+)/).map {
                $0.1.lowercased().replacing(" ", with: "-").filter {
                    $0 == "-" || $0.isLetter || $0.isNumber
                }
            })

        #expect(DocumentReferences.metrics(named: rules).subtracting(named) == [])
        #expect(entries.subtracting(headings) == [])
        // The log is watched by other means than Prometheus.
        #expect(told.symmetricDifference(entries) == ["what-you-see"])
    }

    /// Each alert is named by the entry that it leads to, and each entry names alerts that exist.
    @Test func alerts_always_areNamedByTheirEntries() throws {
        let rules = try Repository.text("Deploy/monitoring/alerts.yml")
        let tests = try Repository.text("Deploy/monitoring/alerts-test.yml")
        let runbook = try Repository.text("Deploy/docs/RUNBOOK.md")
        let alerts = DocumentReferences.alerts(ofRules: rules)
        let named = DocumentReferences.alerts(ofRunbook: runbook)
        let tested = Set(tests.matches(of: /- name: (Repricer[A-Za-z]+)/).map { String($0.1) })

        #expect(alerts.count > 30)
        #expect(named == alerts)
        #expect(tested == Set(alerts.keys))
    }

    /// The dashboard asks for metrics that exist, and every panel says what it shows and in which unit.
    @Test func dashboard_always_asksMetricsOfTheProduct() throws {
        let dashboard = try Repository.text("Deploy/monitoring/dashboard.json")
        let named = DocumentReferences.metrics(
            named: try Repository.text("Deploy/docs/OPERATIONS.md"))
        let panels = try DocumentReferences.panels(dashboard)

        #expect(panels.count > 20)
        #expect(panels.filter { $0.description.isEmpty || $0.unit.isEmpty }.map(\.title) == [])
        #expect(panels.filter(\.queries.isEmpty).map(\.title) == [])
        for panel in panels {
            for query in panel.queries {
                let asked = DocumentReferences.metrics(named: query)
                #expect(asked.subtracting(named) == [], "\(panel.title)")
            }
        }
    }

    @Test func promisesOfTheThreatModel_areEachHeldByATestThatRuns() throws {
        let page = try Repository.text("Deploy/docs/THREATS.md")
        let tests = repository.files(in: ["Tests"]).reduce(into: Set()) {
            $0.formUnion(TestRules.tests($1.text))
        }
        let named = page.matches(of: /`([a-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+){2,})`/).map {
            String($0.1)
        }

        #expect(named.count > 40)
        #expect(named.filter { !tests.contains($0) } == [])
        #expect(
            DocumentReferences.promisesWithoutATest(
                page, tests: tests, paths: repository.paths) == [])
    }

    /// Where one Prometheus watches several apps, no rule mixes them, and each alert says whose it is.
    @Test func alerts_thatAddUp_keepAppsAndEnvironmentsApart() throws {
        let rules = try Repository.text("Deploy/monitoring/alerts.yml")
        let sums = rules.matches(of: /\b(sum|min|max|avg|count|topk|quantile) ?(by \([^)]*\) )?\(/)

        #expect(sums.count > 30)
        #expect(sums.filter { !($0.2?.hasPrefix("by (app, environment") ?? false) }.map(\.0) == [])
        #expect(!rules.contains("without ("))
    }

    private static let aroundTheProduct = [
        "Sources/SandboxStore", "Sources/appstore-sandbox", "Sources/Benchmarks",
    ]
}
