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

    @Test func sql_outsideLedgerAndPostgres_isNowhere() {
        let found = repository.findings(
            in: ["Sources"], except: ["Sources/Ledger", "Sources/Postgres"], SQLRules.statements)

        #expect(found == [])
    }

    @Test func queries_ofLedger_takeTheTimeAsParameter() {
        #expect(repository.findings(in: ["Sources/Ledger"], SQLRules.clocks) == [])
    }

    @Test func topLevel_always_isTheAgreedOne() {
        #expect(DocumentRules.strays(ofPaths: repository.paths) == [])
    }

    @Test func stateDiagram_always_showsTheStatesOfAChange() throws {
        let states = DocumentRules.diagramStates(try Repository.text("Sources/README.md"))

        #expect(states == Set(ChangeState.allCases.map(\.rawValue)))
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
}
