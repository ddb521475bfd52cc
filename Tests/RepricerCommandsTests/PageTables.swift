/// The tables of a page, read back from its markup: what a person sees in each cell.
struct PageTables {
    private let markup: String

    init(_ markup: String) { self.markup = markup }

    /// Rows of cells of the table with this caption or label; empty where there is none.
    subscript(_ name: String) -> [[String]] {
        guard
            let table = markup.matches(
                of: /<table(?<head>[^>]*)>(?<body>.*?)<\/table>/.dotMatchesNewlines()
            )
            .first(where: { match in
                match.head.contains("aria-label=\"\(name)")
                    || match.body.firstMatch(of: /<caption>(?<text>.*?)<\/caption>/)
                        .map { $0.text.hasPrefix(name) } ?? false
            })
        else { return [] }
        return table.body.matches(of: /<tr[^>]*>(?<cells>.*?)<\/tr>/.dotMatchesNewlines()).map {
            row in
            row.cells.matches(of: /<(?:th|td)[^>]*>(?<cell>.*?)<\/(?:th|td)>/.dotMatchesNewlines())
                .map { Self.text(String($0.cell)) }
        }
    }

    /// What is left of markup when it is read.
    private static func text(_ markup: String) -> String {
        markup.replacing(/<br>|<span class="sub">/, with: " ").replacing(/<[^>]*>/, with: "")
            .replacing("&lt;", with: "<").replacing("&gt;", with: ">")
            .replacing("&quot;", with: "\"").replacing("&#39;", with: "'")
            .replacing("&amp;", with: "&")
    }
}
