/// A page read back from its markup: what a person sees in each cell.
package struct PageTables {
    private let markup: String

    package init(_ markup: String) { self.markup = markup }

    /// Rows of cells of the table with this caption or label; empty where there is none.
    package subscript(_ name: String) -> [[String]] {
        table { $0.hasPrefix(name) }
    }

    /// The same of a table that is called so and no longer: a chart's name has its unit, too.
    package subscript(exactly name: String) -> [[String]] {
        table { $0 == name }
    }

    /// What its tables are called.
    package var names: [String] {
        markup.matches(of: /<table[^>]*aria-label="(?<a>[^"]*)"|<caption>(?<b>.*?)<\/caption>/)
            .compactMap { ($0.a ?? $0.b).map(String.init) }
    }

    private func table(_ isCalled: (String) -> Bool) -> [[String]] {
        guard
            let table = markup.matches(
                of: /<table(?<head>[^>]*)>(?<body>.*?)<\/table>/.dotMatchesNewlines()
            )
            .first(where: { match in
                let names = [
                    match.head.firstMatch(of: /aria-label="(?<text>[^"]*)"/).map(\.text),
                    match.body.firstMatch(of: /<caption>(?<text>.*?)<\/caption>/).map(\.text),
                ]
                return names.contains { $0.map { isCalled(Self.text(String($0))) } ?? false }
            })
        else { return [] }
        return table.body.matches(of: /<tr[^>]*>(?<cells>.*?)<\/tr>/.dotMatchesNewlines()).map {
            row in
            row.cells.matches(of: /<(?:th|td)[^>]*>(?<cell>.*?)<\/(?:th|td)>/.dotMatchesNewlines())
                .map { Self.text(String($0.cell)) }
        }
    }

    /// Its rows without the headings.
    package func rows(_ name: String) -> [[String]] { Array(self[name].dropFirst()) }

    /// The figures at a glance: name, value and what is said of it, between bars.
    package var cards: [String] {
        markup.matches(
            of:
                /<li><span class="name">(?<name>.*?)<\/span><span class="value">(?<value>.*?)<\/span><span class="more">(?<more>.*?)<\/span><\/li>/
                .dotMatchesNewlines()
        ).map { card in
            [card.name, card.value, card.more].map { Self.text(String($0)) }
                .filter { !$0.isEmpty }.joined(separator: " | ")
        }
    }

    /// Names with their values, as `name | value`.
    package var definitions: [String] {
        markup.matches(of: /<dt>(?<name>.*?)<\/dt><dd>(?<value>.*?)<\/dd>/.dotMatchesNewlines()).map
        {
            "\(Self.text(String($0.name))) | \(Self.text(String($0.value)))"
        }
    }

    /// What stands above all else.
    package var notices: [String] {
        markup.matches(of: /<li class="[a-z]+"><strong>(?<text>.*?)<\/li>/.dotMatchesNewlines())
            .map { Self.text(String($0.text)) }
    }

    /// Paragraphs, the lead among them.
    package var paragraphs: [String] {
        markup.matches(of: /<p[^>]*>(?<text>.*?)<\/p>/.dotMatchesNewlines())
            .map { Self.text(String($0.text)) }
    }

    /// What is left of markup when it is read.
    private static func text(_ markup: String) -> String {
        markup.replacing(/<br>|<span class="sub">|\n/, with: " ").replacing(/<[^>]*>/, with: "")
            .replacing("&lt;", with: "<").replacing("&gt;", with: ">")
            .replacing("&quot;", with: "\"").replacing("&#39;", with: "'")
            .replacing("&amp;", with: "&")
    }
}
