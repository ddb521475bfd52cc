import Synchronization

/// Counts up; one of the series of `Metrics`.
package final class Counter: Sendable {
    private let value = Atomic<Int>(0)

    fileprivate init() {}

    package func increment(by amount: Int = 1) {
        value.wrappingAdd(amount, ordering: .relaxed)
    }

    fileprivate var count: Int { value.load(ordering: .relaxed) }
}

/// A histogram of durations; one of the series of `Metrics`.
package final class Timing: Sendable {
    private struct State {
        var buckets = [Int](repeating: 0, count: Metrics.bucketBounds.count)
        var count = 0
        var sum = 0.0
    }

    private let state = Mutex(State())

    fileprivate init() {}

    package func observe(seconds: Double) {
        // From the last bucket down: each holds what the ones before it hold.
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
    /// Upper bounds in seconds of a timing's buckets.
    package static let bucketBounds = [
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
    ]
    /// Series beyond this are dropped and counted: a label must never hold an unbounded value.
    package static let seriesMax = 10_000

    private enum Value {
        case counter(Counter)
        case gauge(Double)
        case timing(Timing)
    }

    private struct State {
        var families: [String: [String: Value]] = [:]
        var helps: [String: String] = [:]
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

    package init() {}

    /// The `# HELP` line of a metric.
    package func describe(_ name: String, _ help: String) {
        let line = help.split(whereSeparator: \.isNewline).joined(separator: " ")
        state.withLock { $0.helps[name] = line }
    }

    /// The counter of that name and those labels, to be kept by who counts often. It exists from now on; one series too
    /// many is counted and leads nowhere.
    package func counter(_ name: String, labels: [String: String] = [:]) -> Counter {
        let key = Self.labelText(labels)
        return state.withLock { state in
            if case .counter(let known)? = state.families[name]?[key] { return known }
            let fresh = Counter()
            state.put(.counter(fresh), name, key)
            return fresh
        }
    }

    /// The histogram of that name and those labels, to be kept by who measures often; else as a counter.
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
        case .counter(let counter): return ["\(name)\(braces) \(counter.count)"]
        case .gauge(let number): return ["\(name)\(braces) \(text(number))"]
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
