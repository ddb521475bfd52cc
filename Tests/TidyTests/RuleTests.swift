import Testing

/// Each rule against a planted violation and a clean sample: a rule that finds nothing proves nothing.
@Suite struct RuleTests {
    private func lines(_ findings: [Finding]) -> [Int] { findings.map(\.line) }

    private func function(_ head: String, lines: Int) -> String {
        "\(head) {\n" + String(repeating: "    work()\n", count: lines - 2) + "}\n"
    }

    @Test func longFile_whenOneLineTooLong_isFound() {
        let source = SwiftText("a\nb\nc\n")

        #expect(lines(SizeRules.longFile(source, linesMax: 2)) == [3])
        #expect(SizeRules.longFile(source, linesMax: 3) == [])
    }

    @Test(arguments: [
        "func f(a: () -> Void = {}) async throws(E) -> [Int: A<B>]", "init?()", "deinit",
        "var x: [String: Int]", "subscript(i: Int) -> Int", "func == (a: A, b: A) -> Bool",
        "func f<T>(_ t: T) where T: P",
    ])
    func longFunctions_whenOneLineTooLong_areFound(_ head: String) {
        let clean = SwiftText("\n" + function(head, lines: 70))
        let planted = SwiftText("\n" + function(head, lines: 71))

        #expect(SizeRules.longFunctions(clean) == [])
        #expect(lines(SizeRules.longFunctions(planted)) == [2])
    }

    @Test func longFunctions_ofTypesRequirementsAndTables_areNone() {
        let long = String(repeating: "\n", count: 90)
        let type = "struct S {\n    var a: Int = 1\n    var b: Int\n\(long)}\n"
        let requirement = "protocol P {\n    func f()\n    init()\n}\nstruct S {\(long)}\n"
        let table = "static let table = [\(long)]\nvar text = \"\"\"\(long)\"\"\"\n"
        let call = "let a: A = .init(b) {\(long)}"

        for source in [type, requirement, table, call] {
            #expect(SizeRules.longFunctions(SwiftText(source)) == [])
        }
    }

    @Test func circle_ofFolders_isFound() {
        let store = SwiftText("package struct Store { struct Row {} }\nprivate struct Own {}")
        let reader = SwiftText("enum Reader { func read(_ store: Store) {} }\nstruct Own {}")
        let clean = SwiftText(
            "// Reader\nlet text = \"Reader\"\nprivate struct Own {}\nlet own: Own")
        let planted = SwiftText("extension Reader {}")

        func circles(_ root: SwiftText) -> [String] {
            FolderRules.circles(
                FolderRules.uses([("Wire", store), ("Wire", root), ("Reading", reader)]))
        }

        let addition = SwiftText("extension Reader { static let rows: Store? = nil }")

        #expect(FolderRules.types(store) == ["Store"])
        #expect(circles(clean) == [])
        // What an extension adds is at home where the extension stands.
        #expect(FolderRules.additions(addition) == ["Reader.rows"])
        #expect(
            FolderRules.circles(
                FolderRules.uses([
                    ("", SwiftText("enum Reader { static let all = Reader.rows }")),
                    ("Verbs", SwiftText("extension Reader { static let rows = Reader.all }")),
                ])) == ["", "Verbs"])
        #expect(circles(planted) == ["Reading", "Wire"])
    }

    @Test func testsThatNeverRun_withoutTheirAttribute_areFound() {
        let source = SwiftText(
            """
            @Suite struct S {
                @Test func a_whenB_c() {}
                @Test(arguments: [1, 2]) private func b_whenC_d(_ x: Int) async {}
                @Test
                @MainActor func c_whenD_e() {}
                func testing() {}
                // func testComment() {}
                let text = "func testLiteral() {}"
                func testA() {}
                @Test func d() {}; func e_whenF_g() {}
                @MainActor func test() {}
            }
            """)

        #expect(lines(TestRules.testsThatNeverRun(source)) == [9, 10, 11])
    }

    @Test func traps_inCode_areFound() {
        let planted = SwiftText(
            "try! f()\na as! B\nc!.d\ne[0]!\nf()!\nvar g: H!\nfatalError(\"\")\n")
        let clean = SwiftText(
            """
            // try! as! fatalError( a!
            if !a, a != b, (!c), [!d].isEmpty { try? e(); f as? G; h("it! try! \\(!i) fatalError(") }
            j(!k) ; l.fatalErrors()
            """)

        #expect(lines(SafetyRules.traps(planted)) == [1, 2, 3, 4, 5, 6, 7])
        #expect(SafetyRules.traps(clean) == [])
    }

    @Test func traps_inInterpolations_areFound() {
        #expect(lines(SafetyRules.traps(SwiftText(#"let a = "b \(c!)""#))) == [1])
    }

    @Test func silentErrors_withoutAComment_areFound() {
        let source = SwiftText(
            """
            let a = try? f()

            // Nobody waits for it.
            let b = try? f()
            let c = try? f()  // Closing is a courtesy.

            let d = "try? f()"
            let e = try f() ?? g
            let h = try? f()
            // One reason for a row of attempts:
            if let i = try? f() {
            } else if let j = try? f() {
                k()
            } else if let l = try? f() {
                m()
                n()
            } else if let o = try? f() {
            }
            """)

        #expect(lines(SafetyRules.silentErrors(source)) == [1, 9, 17])
    }

    @Test func defaults_overOurEnums_areFound() {
        let enums = SafetyRules.enumCases(
            SwiftText(
                "enum E: String { case a = \"x\", b(Int)\n case c\n var d: Int { switch self { case .z: 1 } } }"
            ))
        let planted = SwiftText(
            "switch e {\ncase .a: if case .q = r { s() }\ncase let .b(c): d()\ndefault: f()\n}")
        let clean = [
            "switch e {\ncase .a, .b: 1\ncase .c: 2\n}", "switch e {\ncase 1: 1\ndefault: 2\n}",
            "switch e {\ncase .theirs: 1\ndefault: 2\n}",
            "switch e {\ncase .a: 1\n@unknown default: 2\n}",
        ]

        #expect(enums == [["a", "b", "c"]])
        #expect(lines(SafetyRules.defaults(planted, enums: enums)) == [4])
        for source in clean {
            #expect(SafetyRules.defaults(SwiftText(source), enums: enums) == [])
        }
    }

    @Test(arguments: [
        "SELECT 1", "select a from b", "INSERT INTO a", "UPDATE a SET b", "update a set b",
        "DELETE FROM a", "WITH a AS (", "CREATE TABLE a", "-- name: claim", "SET ROLE a",
        "SET a = 1", "BEGIN", "COPY a FROM STDIN", "\n    SELECT 1", "drop schema a",
        "GRANT a TO b",
    ])
    func statements_inLiterals_areFound(_ sql: String) {
        let source = SwiftText("// x\nlet a = \"\"\"\n\(sql)\n\"\"\"")

        #expect(lines(SQLRules.statements(source)) == [2])
    }

    @Test(arguments: [
        "REVOKE", "DELETE", "DELETE /sandbox", "Select a batch", "update the file", "with a file",
        "set it",
        "Create a batch", "begin", "The SELECT", "-- help", "",
    ])
    func statements_ofProse_areNone(_ text: String) {
        #expect(SQLRules.statements(SwiftText("let a = \"\(text)\" // SELECT 1")) == [])
    }

    @Test(arguments: ["now()", "NOW ()", "clock_timestamp()", "current_timestamp", "CURRENT_DATE"])
    func clocks_inQueries_areFound(_ clock: String) {
        #expect(lines(SQLRules.clocks(SwiftText("f(\n\"a < \(clock)\")"))) == [2])
    }

    @Test func clocks_ofCommentsColumnsAndCode_areNone() {
        let source = SwiftText(
            "let a = now() // now()\nf(\"\"\"\n-- not now()\nSELECT known(), now, is_now()\n\"\"\")"
        )

        #expect(SQLRules.clocks(source) == [])
    }

    @Test func writesThatKeepNothing_areFound() {
        func found(_ statement: String) -> [String] {
            VersionRules.unkeptWrites("\n-- name: s\n" + statement).map(\.what)
        }
        let kept =
            "WITH \\(fragment: VersionQueries.ofChanges(x)), m AS (INSERT INTO repricer.stale_figures) "
        let update = "UPDATE repricer.price_changes c SET "

        #expect(
            found(update + "state = 'x'\nWHERE true") == [
                "s keeps no version of price_changes", "s marks no figures",
            ])
        #expect(
            found(kept + update + "state = 'x'\nWHERE true") == [
                "s does not say since when price_changes stand so"
            ])
        #expect(found(kept + update + "state = 'x', recorded_at = i\nWHERE true") == [])
        #expect(found(update + "is_held = true\nWHERE state = 'x'") == [])
        #expect(found("DELETE FROM repricer.charges") == ["s keeps no version of charges"])
        #expect(
            found("INSERT INTO repricer.dependent_cancellations AS k ON CONFLICT DO UPDATE")
                == ["s keeps no version of dependent_cancellations"])
        #expect(
            VersionRules.unkeptWrites(
                "CREATE FUNCTION repricer.f()\nUPDATE batches SET is_paused = true;"
            ).map(\.what)
                == ["repricer.f keeps no version of batches"])
        for (migration, name) in [
            (
                "CREATE FUNCTION repricer.g() x;\nCREATE OR REPLACE FUNCTION repricer.f()\n",
                "repricer.f"
            ),
            ("DO $$\nBEGIN\n", "DO"), ("-- A new year.\n", ""),
        ] {
            #expect(
                VersionRules.unkeptWrites(
                    migration + "UPDATE repricer.batches SET is_paused = true;"
                )
                .map(\.what) == ["\(name) keeps no version of batches"])
        }
        #expect(VersionRules.triggers("\nCREATE TRIGGER t AFTER").map(\.line) == [2])
    }
}
