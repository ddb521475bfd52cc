import Testing

@Suite struct DocumentRuleTests {
    @Test func strays_atTheTopLevel_areFound() {
        let agreed = ["Package.swift", "Sources/A/a.swift", "README.md", ".ci/run", ".gitignore"]

        #expect(DocumentRules.strays(ofPaths: agreed) == [])
        #expect(
            DocumentRules.strays(ofPaths: agreed + ["docs/a.md", "Makefile"]) == [
                "Makefile", "docs",
            ])
    }

    @Test func diagramStates_ofADiagram_areItsNodes() {
        let markdown = """
            x --> y
            ```mermaid
            stateDiagram-v2
                [*] --> queued
                queued --> sending: written --> or not
                sending --> [*]
            ```
            a --> b
            """

        #expect(DocumentRules.diagramStates(markdown) == ["queued", "sending"])
    }

    @Test func migrationHead_whenComplete_lacksNothing() {
        let sql = "-- Why this is\n-- needed now.\n-- Locks: none.\n-- breaking: no\n\nSELECT 1;\n"

        #expect(DocumentRules.migrationHead(sql) == [])
        #expect(
            DocumentRules.migrationHead("-- Why it is needed.\n-- Locks: a\n-- breaking: no (b)\n")
                == [])
    }

    @Test(arguments: [
        ("-- Locks: none\n-- breaking: no\n", ["why"]),
        ("-- Why this is needed.\n-- breaking: yes\n", ["Locks:"]),
        ("-- Why this is needed.\n-- Locks: \n-- breaking: yes\n", ["Locks:"]),
        ("-- Why this is needed.\n-- Locks: a\n-- breaking: maybe\n", ["breaking: yes|no"]),
        ("-- Why this is needed.\n-- Locks: a\n-- breaking: not yet\n", ["breaking: yes|no"]),
        (
            "-- Why this is needed.\n-- Locks: a\n-- breaking: no\n-- breaking: yes\n",
            ["breaking: yes|no"]
        ),
        ("-- Why this is needed.\n-- Locks: a\nSELECT 1;\n-- breaking: no\n", ["breaking: yes|no"]),
        ("SELECT 1;\n", ["why", "Locks:", "breaking: yes|no"]),
    ])
    func migrationHead_whenIncomplete_lacksIt(_ sql: String, _ missing: [String]) {
        #expect(DocumentRules.migrationHead(sql) == missing)
    }

    @Test func declared_ofAManifest_areItsModules() {
        let manifest = SwiftText(
            """
            func module(_ name: String, _ dependencies: [Target.Dependency] = []) -> Target { a("Z") }
            let package = Package(name: "p", targets: [
                .systemLibrary(name: "CLib", pkgConfig: "lib", providers: [.apt(["lib-dev"])]),
                module("A"),  // module("B")
                module("B", ["A", "CLib"]), program("c", ["B"]), tests("B", ["A"]),
            ])
            """)

        #expect(
            ModuleRules.declared(manifest) == [
                "CLib": [], "A": [], "B": ["A", "CLib"], "c": ["B"],
            ])
    }

    @Test func drawn_ofATable_areItsArrows() {
        let markdown = """
            | other | table | here |
            | --- | --- | --- |
            | `Z` | z | A |

            | module | purpose | imports |
            | --- | --- | --- |
            | `CLib`, `CSSL` | system | – |
            | `A` | a | CLib |
            | `B` | b | CSSL, `A` |
            | `C` | c | all above but the system libraries |

            | `Y` | y | A |
            """

        let drawn = ModuleRules.drawn(markdown, systemLibraries: ["CLib", "CSSL"])

        #expect(
            drawn == ["CLib": [], "CSSL": [], "A": ["CLib"], "B": ["CSSL", "A"], "C": ["A", "B"]])
    }

    @Test func imports_ofAFile_areItsModules() {
        let source = SwiftText(
            """
            package import A
            @testable import B
            import struct C.D
            // import E
            let a = "import F"
            """)

        #expect(ModuleRules.imports(source) == ["A", "B", "C"])
    }

    @Test func differences_ofArrows_nameModuleAndSide() {
        let one: [String: Set<String>] = ["A": ["B"], "B": [], "C": []]
        let other: [String: Set<String>] = ["A": ["D"], "B": []]

        #expect(ModuleRules.differences(one, "one", one, "two") == [])
        #expect(
            ModuleRules.differences(one, "one", other, "two") == [
                #"A: ["B"] only in one"#, #"A: ["D"] only in two"#, "C: not in two",
            ])
    }
}
