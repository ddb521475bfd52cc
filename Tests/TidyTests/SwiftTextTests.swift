import Testing

@Suite struct SwiftTextTests {
    private func texts(_ source: String, _ kind: Token.Kind) -> [String] {
        SwiftText(source).tokens.filter { $0.kind == kind }.map(\.text)
    }

    @Test func comments_ofBothKinds_areNoTokens() {
        let source = SwiftText("let a = 1 // try!\n/* b /* c */ \n d */ let e = 2\n")

        #expect(source.tokens.map(\.text) == ["let", "a", "=", "1", "let", "e", "=", "2"])
        #expect(source.tokens.map(\.line) == [1, 1, 1, 1, 3, 3, 3, 3])
        #expect(source.commentLines == [1, 2, 3])
        #expect(source.lineCount == 3)
    }

    @Test func strings_ofAllKinds_areOneTokenEach() {
        let source = ##"""
            let a = "x \" y // {", b = #"raw " \("#, c = """
                many { "quotes"
                """, d = 4
            """##

        #expect(texts(source, .string).count == 3)
        #expect(texts(source, .string).first == #"x \" y // {"#)
        #expect(texts(source, .word) == ["let", "a", "b", "c", "d", "4"])
        #expect(SwiftText(source).tokens.last?.line == 3)
    }

    @Test func interpolations_whenNested_areCode() {
        let source = #"let a = "one \(f("two \(b)", 3)) end"; g()"#

        #expect(texts(source, .string) == [#"one \(f("two \(b)", 3)) end"#, #"two \(b)"#])
        #expect(texts(source, .word) == ["let", "a", "f", "b", "3", "g"])
    }

    @Test func regexes_whenTheyHoldQuotesOrBraces_areOneToken() {
        let source = #"let a = /"{[0-9]\/}/, b = c / d, e = #/x/y/#"#

        #expect(texts(source, .regex) == [#""{[0-9]\/}"#, "x/y"])
        #expect(texts(source, .word) == ["let", "a", "b", "c", "d", "e"])
    }

    @Test func text_whenItEndsAmidALiteral_ends() {
        for source in ["\"", "\"\"\"\nabc", "/*", "#\"x\\#(", "let a = /x", "\"\\", "f("] {
            #expect(SwiftText(source).lineCount >= 1)
        }
        #expect(SwiftText("").lineCount == 0)
    }

    @Test func close_whenBracketsNest_isTheMatchingOne() {
        let source = SwiftText("f({ [1, (2)] }, \"}\") + g()")

        #expect(source.tokens[source.close(of: 1)].text == ")")
        #expect(source.close(of: 1) == 13)
    }
}
