import Synchronization

/// A counter: one series of `Metrics`.
package final class Counter: Sendable {
    private let value = Atomic<Int>(0)

    fileprivate init() {}

    package func increment(by amount: Int = 1) {
        value.wrappingAdd(amount, ordering: .relaxed)
    }

    fileprivate var count: Int { value.load(ordering: .relaxed) }
}

/// A histogram of durations: one series of `Metrics`.
package final class Timing: Sendable {
    private struct State {
        var buckets = [Int](repeating: 0, count: Metrics.bucketBounds.count)
        var count = 0
        var sum = 0.0
    }

    private let state = Mutex(State())

    fileprivate init() {}

    package func observe(seconds: Double) {
        // Prometheus' buckets are cumulative: each includes the ones before it. So all from the last one down to the
        // first that fits are raised.
        var first = Metrics.bucketBounds.count
        while first > 0, seconds <= Metrics.bucketBounds[first - 1] { first -= 1 }
        state.withLock { state in
            for index in first..<state.buckets.count { state.buckets[index] += 1 }
            state.count += 1
            state.sum += seconds
        }
    }

    fileprivate var snapshot: (buckets: [Int], count: Int, sum: Double) {
        state.withLock { ($0.buckets, $0.count, $0.sum) }
    }
}

/// Counters, gauges and timings, rendered in Prometheus' text format.
package final class Metrics: Sendable {
    /// The upper bounds of a timing's buckets, in seconds.
    package static let bucketBounds = [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
    ]
    /// The most series. Further ones are dropped and counted, because a label must never hold an unbounded value.
    package static let seriesMax = 10_000

    private enum Value {
        case counter(Counter)
        case gauge(Double)
        /// A counter that something else keeps.
        case total(Double)
        case timing(Timing)
    }

    /// The lines that precede a family's samples.
    private struct Head {
        var kind: String
        var help: String?
    }

    private struct State: Sendable {
        var families: [String: [String: Value]] = [:]
        var heads: [String: Head] = [:]
        var collectors: [@Sendable (Metrics) -> Void] = []
        var seriesCount = 0
        var dropped = 0

        mutating func put(_ value: Value, _ name: String, _ key: String) {
            if families[name]?[key] == nil {
                guard seriesCount < Metrics.seriesMax else {
                    dropped += 1
                    return
                }
                seriesCount += 1
            }
            families[name, default: [:]][key] = value
        }
    }

    private let state = Mutex(State())

    private static let droppedName = "repricer_metrics_series_dropped_total"

    package init() {
        declareCounter(
            "repricer_metrics_series_dropped_total",
            "Series beyond the most that a process keeps; more than 0 is a fault of the program.")
    }

    /// The possible values of each label of a metric. Each combination exists at 0 before its first event.
    package typealias Labels = KeyValuePairs<String, [String]>

    /// Declares a counter with its help. Without labels it exists at 0 from now on.
    package func declareCounter(_ name: String, _ help: String, labels: Labels = [:]) {
        declare(name, "counter", help)
        for combination in Self.combinations(labels) { _ = counter(name, labels: combination) }
    }

    /// Declares a gauge with its help. It has no sample until it is set, because an unknown value is not 0.
    package func declareGauge(_ name: String, _ help: String) {
        declare(name, "gauge", help)
    }

    /// Declares a histogram with its help. Without labels it exists at 0 from now on.
    package func declareTiming(_ name: String, _ help: String, labels: Labels = [:]) {
        declare(name, "histogram", help)
        for combination in Self.combinations(labels) { _ = timing(name, labels: combination) }
    }

    private func declare(_ name: String, _ kind: String, _ help: String) {
        let help = help.split(whereSeparator: \.isNewline).joined(separator: " ")
        state.withLock { $0.heads[name] = Head(kind: kind, help: help) }
    }

    private static func combinations(_ labels: Labels) -> [[String: String]] {
        labels.reduce([[:]]) { all, label in
            all.flatMap { one in label.value.map { one.merging([label.key: $0]) { $1 } } }
        }
    }

    /// Calls `collect` before each rendering, to set its gauges. Use it for figures that are cheap to read and always
    /// change.
    package func onRender(_ collect: @escaping @Sendable (Metrics) -> Void) {
        state.withLock { $0.collectors.append(collect) }
    }

    /// The counter of that name and those labels, which exists from now on. A caller that counts often keeps it. Beyond
    /// `seriesMax` the counter works, but is not rendered; the dropped series is counted.
    package func counter(_ name: String, labels: [String: String] = [:]) -> Counter {
        let key = Self.labelText(labels)
        return state.withLock { state in
            if case .counter(let known)? = state.families[name]?[key] { return known }
            let fresh = Counter()
            state.put(.counter(fresh), name, key)
            return fresh
        }
    }

    /// The histogram of that name and those labels. A caller that measures often keeps it. Otherwise it is like a
    /// counter.
    package func timing(_ name: String, labels: [String: String] = [:]) -> Timing {
        let key = Self.labelText(labels)
        return state.withLock { state in
            if case .timing(let known)? = state.families[name]?[key] { return known }
            let fresh = Timing()
            state.put(.timing(fresh), name, key)
            return fresh
        }
    }

    /// Adds to a counter; `by: 0` makes it exist before the first event.
    package func increment(_ name: String, labels: [String: String] = [:], by amount: Int = 1) {
        counter(name, labels: labels).increment(by: amount)
    }

    /// Sets a gauge.
    package func set(_ name: String, labels: [String: String] = [:], to value: Double) {
        let key = Self.labelText(labels)
        state.withLock { $0.put(.gauge(value), name, key) }
    }

    /// Sets all samples of a gauge, and removes those that are not among them.
    package func set(_ name: String, toAll samples: [(labels: [String: String], value: Double)]) {
        state.withLock { state in
            state.seriesCount -= state.families.removeValue(forKey: name)?.count ?? 0
            for sample in samples {
                state.put(.gauge(sample.value), name, Self.labelText(sample.labels))
            }
        }
    }

    /// Sets a counter to what something else has counted, such as the system.
    package func set(_ name: String, toTotal total: Double) {
        state.withLock { $0.put(.total(total), name, "") }
    }

    /// The whole registry as Prometheus text, in a stable order.
    package func render() -> String {
        for collect in state.withLock({ $0.collectors }) { collect(self) }
        set(Self.droppedName, toTotal: Double(state.withLock { $0.dropped }))
        let (families, heads) = state.withLock { ($0.families, $0.heads) }
        var lines: [String] = []
        for name in Set(families.keys).union(heads.keys).sorted() {
            let series = families[name] ?? [:]
            if let help = heads[name]?.help {
                lines.append("# HELP \(name) \(Self.escapedHelp(help))")
            }
            if let kind = series.first.map({ Self.kind($0.value) }) ?? heads[name]?.kind {
                lines.append("# TYPE \(name) \(kind)")
            }
            for (labels, value) in series.sorted(by: { $0.key < $1.key }) {
                lines += Self.lines(name, labels, value)
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func escapedHelp(_ help: String) -> String { help.replacing("\\", with: "\\\\") }

    private static func kind(_ value: Value) -> String {
        switch value {
        case .counter, .total: "counter"
        case .gauge: "gauge"
        case .timing: "histogram"
        }
    }

    private static func lines(_ name: String, _ labels: String, _ value: Value) -> [String] {
        let braces = labels.isEmpty ? "" : "{\(labels)}"
        switch value {
        case .counter(let counter): return ["\(name)\(braces) \(counter.count)"]
        case .gauge(let number), .total(let number):
            return ["\(name)\(braces) \(text(number))"]
        case .timing(let timing):
            let (buckets, count, sum) = timing.snapshot
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
