package import Pricing

/// One bar. Its name and value stand beside it as text, so colour or length is never the only sign.
package struct Bar: Sendable {
    package enum Kind: String, Sendable {
        case plain, gain, loss, open
    }

    package var label: String
    package var value: Int64
    package var shown: String
    /// The value that a bar of full width stands for. Bars with the same full value can be compared.
    package var full: Int64
    package var kind: Kind

    package init(_ label: String, _ value: Int64, _ shown: String, full: Int64, kind: Kind = .plain)
    {
        self.label = label
        self.value = value
        self.shown = shown
        self.full = full
        self.kind = kind
    }
}

/// Draws bars in the rows of their own table. So the chart is also the table of its data, and stays readable at any
/// width.
package func barChart(_ title: String, unit: String, _ bars: [Bar]) -> HTML {
    guard !bars.isEmpty else { return .none }
    let rows = bars.map { bar -> HTML in
        """
        <tr><th scope="row">\(bar.label)</th><td class="bar">\(meter(bar))</td>\
        <td class="number">\(bar.shown)</td></tr>

        """
    }
    return """
        <figure class="chart"><figcaption><strong>\(title)</strong> <span>\(unit)</span></figcaption>
        <table class="bars" aria-label="\(title), \(unit)">
        <thead class="quiet"><tr><th scope="col">Step</th><th scope="col">Bar</th>\
        <th scope="col">Value</th></tr></thead><tbody>
        \(rows)</tbody></table></figure>

        """
}

private func meter(_ bar: Bar) -> HTML {
    """
    <svg class="meter" viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">\
    <rect class="track" width="1000" height="10"/>\
    <rect class="\(bar.kind.rawValue)" width="\(thousandths(bar.value, of: bar.full))" height="10"/></svg>
    """
}

/// How much of a whole is done, in words and as a bar.
package func progress(_ part: Int64, of whole: Int64) -> HTML {
    "<span class=\"progress\">\(progressBar(part, of: whole))<span>\(share(part, of: whole))</span></span>"
}

/// The bar alone, where the words stand beside it.
package func progressBar(_ part: Int64, of whole: Int64) -> HTML {
    meter(Bar("", part, "", full: whole, kind: part >= whole ? .gain : .plain))
}

/// The share in thousandths; at least one for any value but 0.
private func thousandths(_ value: Int64, of full: Int64) -> Int {
    guard value != 0, full != 0 else { return 0 }
    let share = value.magnitude.multipliedFullWidth(by: 1000)
    // The high word is below the whole whenever |value| is at most |full|. Otherwise the bar is full.
    guard share.high < full.magnitude else { return 1000 }
    return max(1, min(1000, Int(full.magnitude.dividingFullWidth(share).quotient)))
}

/// A number that grows from day to day: as forecast, as it actually came, and as it is due now.
package struct Curve: Sendable {
    package struct Series: Sendable {
        package enum Kind: String, Sendable {
            case forecast, fact, due
        }

        package var name: String
        package var kind: Kind
        /// The sums up to and including each day, in ascending order.
        package var points: [(day: CivilDate, value: Int64)]

        package init(_ name: String, _ kind: Kind, _ points: [(day: CivilDate, value: Int64)]) {
            self.name = name
            self.kind = kind
            self.points = points
        }
    }

    package var title: String
    package var unit: String
    package var series: [Series]
    package var now: Instant

    package init(_ title: String, unit: String, _ series: [Series], now: Instant) {
        self.title = title
        self.unit = unit
        self.series = series
        self.now = now
    }

    private static let height = 200
    /// The top of the plot. Above it is the label of the present day's mark, which no number of the grid may displace.
    private static let top = 16
    private static var bottom: Int { top + height }

    private var days: [CivilDate] { Set(series.flatMap { $0.points.map(\.day) }).sorted() }

    package var html: HTML {
        let days = days
        let most = series.flatMap { $0.points.map(\.value) }.max() ?? 0
        guard let first = days.first, let last = days.last, most > 0 else { return .none }
        let from = first.daysSinceEpoch - 1
        let span = max(1, last.daysSinceEpoch + 1 - from)
        let x = { (day: CivilDate) in (day.daysSinceEpoch - from) * 1000 / span }
        let paths = series.filter { !$0.points.isEmpty }.map { line -> HTML in
            "<path class=\"line \(line.kind.rawValue)\" d=\"\(path(line, x, most))\"/>"
        }
        let elapsed = now.milliseconds - first.startAt.milliseconds
        // Seconds by 864 are hundredths of a day.
        let at = Double(elapsed / 1000) / 864 / Double(span) + 100 / Double(span)
        let description =
            "\(title), \(unit), from \(readable(day: first)) to \(readable(day: last)); the highest value is \(counted(most))"
        return """
            <figure class="chart"><figcaption><strong>\(title)</strong> <span>\(unit)</span>\(legend)</figcaption>
            <svg class="curve" role="img" aria-label="\(description)" width="100%" height="\(Self.bottom + 26)">
            \(mark(at))
            \(grid(most))
            <svg x="0" y="\(Self.top)" width="100%" height="\(Self.height)" viewBox="0 0 1000 1000" \
            preserveAspectRatio="none">\(paths)</svg>
            <text x="0" y="\(Self.bottom + 19)">\(readable(day: first))</text>
            <text x="100%" y="\(Self.bottom + 19)" text-anchor="end">\(readable(day: last))</text>
            </svg>
            \(folded("The same as a table", table(days)))</figure>

            """
    }

    private var legend: HTML {
        let entries = series.filter { !$0.points.isEmpty }.map { line -> HTML in
            """
            <li><svg class="swatch" width="28" height="10" aria-hidden="true">\
            <path class="line \(line.kind.rawValue)" d="M0 5H28"/></svg> \(line.name)</li>
            """
        }
        return "<ul class=\"legend\">\(entries)</ul>"
    }

    private func grid(_ most: Int64) -> HTML {
        // Half of one change makes no sense as a grid line.
        let lines = [(0, most), (50, most / 2), (100, Int64(0))].filter {
            $0.0 != 50 || most > 1
        }.map { part, value -> HTML in
            let y = Self.top + Self.height * part / 100
            let text: HTML =
                part == 100 ? "" : "<text x=\"2\" y=\"\(y + 13)\">\(counted(value))</text>"
            return "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"\(y)\" y2=\"\(y)\"/>\(text)"
        }
        return lines.joined(by: "\n")
    }

    /// A mark at the present day, at the edge where that lies beyond the chart.
    private func mark(_ percent: Double) -> HTML {
        let tenths = Int((min(100, max(0, percent)) * 10).rounded())
        let x = "\(tenths / 10).\(tenths % 10)%"
        let anchor = tenths < 100 ? "start" : tenths > 900 ? "end" : "middle"
        let text = percent < 0 ? "now is before this" : percent > 100 ? "now is after this" : "now"
        return """
            <line class="now" x1="\(x)" x2="\(x)" y1="\(Self.top)" y2="\(Self.bottom)"/>\
            <text x="\(x)" y="12" text-anchor="\(anchor)">\(text)</text>
            """
    }

    /// A line in steps, because nothing happens between two days.
    private func path(_ line: Series, _ x: (CivilDate) -> Int, _ most: Int64) -> HTML {
        var text = ""
        for point in line.points {
            let y = 1000 - thousandths(point.value, of: most)
            // The due line starts where the facts end; the others start at zero.
            let start = line.kind == .due ? "M\(x(point.day)) \(y)" : "M\(x(point.day)) 1000V\(y)"
            text += text.isEmpty ? start : "H\(x(point.day))V\(y)"
        }
        return HTML(text)
    }

    private func table(_ days: [CivilDate]) -> HTML {
        let columns =
            [HTMLTable.Column.text("Day (UTC)")] + series.map { .number($0.name) }
        let rows = days.map { day -> [HTML] in
            [HTML(readable(day: day))]
                + series.map { line in
                    let isInside = line.points.first.map { $0.day <= day } ?? false
                    let isOver = line.points.last.map { $0.day < day } ?? true
                    guard isInside, !isOver || line.kind == .forecast else { return "" }
                    return HTML(counted(line.points.last { $0.day <= day }?.value ?? 0))
                }
        }
        return HTMLTable("\(title), \(unit)", columns, rows).html
    }
}
