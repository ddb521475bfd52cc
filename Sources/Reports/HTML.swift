package import Pricing

/// A piece of a page. Its literals are markup. An interpolated value is text and is escaped, unless it is an `HTML`
/// piece itself. So stored text never becomes markup.
package struct HTML: Sendable, ExpressibleByStringInterpolation {
    package private(set) var markup: String

    package init(stringLiteral value: String) { markup = value }

    package init(stringInterpolation: StringInterpolation) { markup = stringInterpolation.markup }

    /// Text as it stands.
    package init(_ text: String) { markup = escapeHTML(text) }

    /// Markup that is finished.
    package init(markup: String) { self.markup = markup }

    package static let none: HTML = ""

    package var isEmpty: Bool { markup.isEmpty }

    package static func + (left: HTML, right: HTML) -> HTML {
        HTML(markup: left.markup + right.markup)
    }

    package static func += (left: inout HTML, right: HTML) { left.markup += right.markup }

    package struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var markup = ""

        package init(literalCapacity: Int, interpolationCount: Int) {
            markup.reserveCapacity(literalCapacity + interpolationCount * 8)
        }

        package mutating func appendLiteral(_ literal: String) { markup += literal }

        package mutating func appendInterpolation(_ text: String) { markup += escapeHTML(text) }

        /// Appends a number in the form that markup needs. For people use `counted`.
        package mutating func appendInterpolation(_ number: some BinaryInteger) {
            markup += String(number)
        }

        package mutating func appendInterpolation(_ piece: HTML) { markup += piece.markup }

        package mutating func appendInterpolation(_ pieces: [HTML]) {
            for piece in pieces { markup += piece.markup }
        }
    }
}

extension [HTML] {
    package func joined(by separator: HTML) -> HTML {
        HTML(markup: map(\.markup).joined(separator: separator.markup))
    }
}

// For people to read.

extension HTML {
    /// `24 Nov 2026, 02:51 UTC`, with the exact instant for programs.
    package static func time(_ milliseconds: Int64) -> HTML {
        "<time datetime=\"\(instantText(milliseconds))\">\(readable(milliseconds))</time>"
    }

    /// `24 Nov 2026`, of an instant in UTC.
    package static func day(_ milliseconds: Int64) -> HTML {
        day(Instant(milliseconds: milliseconds).day)
    }

    package static func day(_ day: CivilDate) -> HTML {
        "<time datetime=\"\(day.text)\">\(readable(day: day))</time>"
    }

    /// `Nov 2026`, of a day in it.
    package static func month(_ day: CivilDate) -> HTML {
        let words = readable(day: day).split(separator: " ").dropFirst().joined(separator: " ")
        return "<time datetime=\"\(day.text.prefix(7).description)\">\(words)</time>"
    }

    package static func time(_ milliseconds: Int64?, none: String = "–") -> HTML {
        milliseconds.map { time($0) } ?? HTML(none)
    }

    /// A link within the pages; the address is made of segments that are encoded already.
    package static func link(_ address: String, _ text: String) -> HTML {
        "<a href=\"\(address)\">\(text)</a>"
    }

    /// Text in which `backticks` mark what is typed or named.
    package static func prose(_ text: String) -> HTML {
        let parts = text.split(separator: "`", omittingEmptySubsequences: false).map(String.init)
        // An unpaired backtick marks nothing.
        guard parts.count % 2 == 1 else { return HTML(text) }
        return parts.enumerated().map { number, part in
            number % 2 == 0 ? HTML(part) : command(part)
        }.joined(by: "")
    }

    /// What somebody types at a terminal.
    package static func command(_ text: String) -> HTML { "<code>\(text)</code>" }
}

private let months = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
]

/// `24 Nov 2026, 02:51 UTC`.
package func readable(_ milliseconds: Int64) -> String {
    let instant = Instant(milliseconds: milliseconds)
    guard instant.isOnCalendar else { return instantText(milliseconds) }
    let text = instant.text
    return "\(readable(day: instant.day)), \(text.dropFirst(11).prefix(5)) UTC"
}

/// `24 Nov 2026`.
package func readable(day: CivilDate) -> String {
    let month = months.indices.contains(day.month - 1) ? months[day.month - 1] : "?"
    return "\(day.day) \(month) \(day.year)"
}

/// `1,234,567`.
package func counted(_ number: some BinaryInteger) -> String {
    (number < 0 ? "-" : "") + groupedByThousands(UInt128(clamping: number.magnitude))
}

/// `1 row`, `1,200 rows`.
package func counted(
    _ number: some BinaryInteger, _ noun: String, plural: String? = nil
) -> String {
    "\(counted(number)) \(number == 1 ? noun : plural ?? noun + "s")"
}

/// `12.99 EUR`.
package func amount(_ milliunits: some BinaryInteger, _ currency: String) -> String {
    "\(money(milliunits, currency: currency)) \(currency)"
}

/// A difference such as `+12.99 EUR`, which shows its direction.
package func difference(_ milliunits: some BinaryInteger, _ currency: String) -> String {
    (milliunits > 0 ? "+" : "") + amount(milliunits, currency)
}

/// A share such as `98 %`. It is never 100 % while one is missing, nor 0 % while there is one.
package func share(_ part: Int64, of whole: Int64) -> String {
    guard whole > 0 else { return "–" }
    if part <= 0 { return "0 %" }
    if part >= whole { return "100 %" }
    let percent = Double(part) / Double(whole) * 100
    if percent < 1 { return "<1 %" }
    return percent > 99 ? ">99 %" : "\(Int(percent.rounded())) %"
}

/// A database name as words: `pending consent`.
package func spaced(_ name: String) -> String { String(name.map { $0 == "_" ? " " : $0 }) }

/// Text as HTML shows it, in an element or in a quoted attribute.
package func escapeHTML(_ text: String) -> String {
    var escaped = ""
    escaped.reserveCapacity(text.utf8.count)
    for scalar in text.unicodeScalars {
        switch scalar {
        case "&": escaped += "&amp;"
        case "<": escaped += "&lt;"
        case ">": escaped += "&gt;"
        case "\"": escaped += "&quot;"
        case "'": escaped += "&#39;"
        case "\u{0}"..."\u{8}", "\u{B}", "\u{C}", "\u{E}"..."\u{1F}", "\u{7F}"..."\u{9F}",
            // These marks turn the direction of what follows them, beyond their own text.
            "\u{202A}"..."\u{202E}", "\u{2066}"..."\u{2069}":
            escaped += "\u{FFFD}"
        default: escaped.unicodeScalars.append(scalar)
        }
    }
    return escaped
}
