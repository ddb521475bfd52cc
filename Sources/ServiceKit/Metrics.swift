import Synchronization

/// Counters, gauges and timings, rendered in Prometheus' text format.
package final class Metrics: Sendable {
    /// Upper bounds in seconds of a timing's buckets.
    package static let bucketBounds = [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
    ]
    /// Series beyond this are dropped and counted: a label must never hold an unbounded value.
    package static let seriesMax = 10_000

    private enum Value {
        case counter(Int)
        case gauge(Double)
        case timing(buckets: [Int], count: Int, sum: Double)
    }

    private struct State {
        var families: [String: [String: Value]] = [:]
        var helps: [String: String] = [:]
        var seriesCount = 0
        var dropped = 0
    }

    private let state = Mutex(State())

    package init() {}

    /// The `# HELP` line of a metric.
    package func describe(_ name: String, _ help: String) {
        let line = help.split(whereSeparator: \.isNewline).joined(separator: " ")
        state.withLock { $0.helps[name] = line }
    }

    /// Adds to a counter; `by: 0` makes it exist before the first event.
    package func increment(_ name: String, labels: [String: String] = [:], by amount: Int = 1) {
        update(name, labels, first: .counter(0)) { value in
            if case .counter(let count) = value {
                value = .counter(count &+ amount)
            } else {
                value = .counter(amount)
            }
        }
    }

    /// Sets a gauge.
    package func set(_ name: String, labels: [String: String] = [:], to value: Double) {
        update(name, labels, first: .gauge(value)) { $0 = .gauge(value) }
    }

    /// Adds one timing to a histogram.
    package func observe(_ name: String, labels: [String: String] = [:], seconds: Double) {
        update(name, labels, first: .counter(0)) { value in
            var buckets: [Int]
            var (count, sum) = (0, 0.0)
            if case .timing(let oldBuckets, let oldCount, let oldSum) = value {
                (buckets, count, sum) = (oldBuckets, oldCount, oldSum)
                // The only owner of the buckets is then the variable, and they change in place.
                value = .counter(0)
            } else {
                buckets = [Int](repeating: 0, count: Self.bucketBounds.count)
            }
            for (index, bound) in Self.bucketBounds.enumerated() where seconds <= bound {
                buckets[index] += 1
            }
            value = .timing(buckets: buckets, count: count + 1, sum: sum + seconds)
        }
    }

    /// `first` is what a series begins with, before its first change.
    private func update(
        _ name: String, _ labels: [String: String], first: Value, _ change: (inout Value) -> Void
    ) {
        let key = Self.labelText(labels)
        state.withLock { state in
            if let family = state.families.index(forKey: name),
                let series = state.families.values[family].index(forKey: key)
            {
                change(&state.families.values[family].values[series])
                return
            }
            guard state.seriesCount < Self.seriesMax else {
                state.dropped += 1
                return
            }
            state.seriesCount += 1
            var value = first
            change(&value)
            state.families[name, default: [:]][key] = value
        }
    }

    /// The whole registry as Prometheus text, in a stable order.
    package func render() -> String {
        let snapshot = state.withLock { $0 }
        var lines: [String] = []
        for (name, series) in snapshot.families.sorted(by: { $0.key < $1.key }) {
            if let help = snapshot.helps[name] { lines.append("# HELP \(name) \(help)") }
            if let any = series.first?.value { lines.append("# TYPE \(name) \(Self.kind(any))") }
            for (labels, value) in series.sorted(by: { $0.key < $1.key }) {
                lines += Self.lines(name, labels, value)
            }
        }
        if snapshot.dropped > 0 {
            lines.append("# TYPE metrics_series_dropped_total counter")
            lines.append("metrics_series_dropped_total \(snapshot.dropped)")
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func kind(_ value: Value) -> String {
        switch value {
        case .counter: "counter"
        case .gauge: "gauge"
        case .timing: "histogram"
        }
    }

    private static func lines(_ name: String, _ labels: String, _ value: Value) -> [String] {
        let braces = labels.isEmpty ? "" : "{\(labels)}"
        switch value {
        case .counter(let count): return ["\(name)\(braces) \(count)"]
        case .gauge(let number): return ["\(name)\(braces) \(text(number))"]
        case .timing(let buckets, let count, let sum):
            let comma = labels.isEmpty ? "" : ","
            let rows = zip(bucketBounds, buckets).map { bound, hits in
                "\(name)_bucket{\(labels)\(comma)le=\"\(text(bound))\"} \(hits)"
            }
            return rows + [
                "\(name)_bucket{\(labels)\(comma)le=\"+Inf\"} \(count)",
                "\(name)_sum\(braces) \(text(sum))", "\(name)_count\(braces) \(count)",
            ]
        }
    }

    private static func text(_ number: Double) -> String {
        if number.isNaN { return "NaN" }
        if number.isInfinite { return number < 0 ? "-Inf" : "+Inf" }
        return Int64(exactly: number).map(String.init) ?? "\(number)"
    }

    private static func labelText(_ labels: [String: String]) -> String {
        guard !labels.isEmpty else { return "" }
        return labels.sorted { $0.key < $1.key }
            .map { "\($0.key)=\"\(escaped($0.value))\"" }
            .joined(separator: ",")
    }

    private static func escaped(_ value: String) -> String {
        value.unicodeScalars.reduce(into: "") { text, scalar in
            switch scalar {
            case "\\": text += "\\\\"
            case "\"": text += "\\\""
            case "\n": text += "\\n"
            case let other: text.unicodeScalars.append(other)
            }
        }
    }
}
