import Glibc
import Synchronization
import TestSupport
import Testing

@testable import ServiceKit

/// Keeps what was written.
final class Recorder: Sendable {
    private let entries = Mutex<[String]>([])

    var all: [String] { entries.withLock { $0 } }

    func add(_ entry: String) {
        entries.withLock { $0.append(entry) }
    }
}

@Suite struct LogMetricsTests {
    @Test func log_withAnyText_staysOnOneLine() {
        let recorder = Recorder()
        let log = Log(component: "a", level: .notice, clock: ManualClock(0), sink: recorder.add)

        log.info("hidden")
        log.with(component: "b").error(
            "two\nlines \"x\"", ["k": "v", "path": "a=b", "empty": "", "bell": "\u{7}\u{2028}"])

        #expect(
            recorder.all == [
                "time=1970-01-01T00:00:00Z level=error component=b "
                    + "message=\"two\\nlines \\\"x\\\"\" k=v path=\"a=b\" empty=\"\" "
                    + "bell=\"\\u{7}\\u{2028}\""
            ])
    }

    @Test func log_withAHugeValue_cutsIt() {
        let recorder = Recorder()

        Log(component: "a", sink: recorder.add).info(String(repeating: "x", count: 100_000))

        #expect(recorder.all.count == 1)
        #expect(recorder.all.allSatisfy { $0.utf8.count < 5000 })
    }

    @Test func metrics_ofEveryKind_areRendered() {
        let metrics = Metrics()

        metrics.declareCounter("b_total", "What b\ncounts", labels: ["z": ["1"], "a": ["y"]])
        metrics.increment("b_total", labels: ["z": "1", "a": "x\"\\\n"], by: 2)
        metrics.increment("b_total", labels: ["a": "x\"\\\n", "z": "1"])
        metrics.set("a_gauge", to: 1.5)
        metrics.set("a_gauge", to: 2)
        metrics.timing("c_seconds").observe(seconds: 0.3)

        let text = metrics.render()
        #expect(text.hasPrefix("# TYPE a_gauge gauge\na_gauge 2\n# HELP b_total What b counts\n"))
        #expect(text.contains("# TYPE b_total counter\nb_total{a=\"x\\\"\\\\\\n\",z=\"1\"} 3\n"))
        #expect(text.contains("b_total{a=\"y\",z=\"1\"} 0\n"))
        #expect(text.contains("c_seconds_bucket{le=\"0.25\"} 0\nc_seconds_bucket{le=\"0.5\"} 1\n"))
        #expect(
            text.contains(
                "c_seconds_bucket{le=\"+Inf\"} 1\nc_seconds_sum 0.3\nc_seconds_count 1\n"))
    }

    @Test func metrics_beyondTheirSeries_countWhatTheyDrop() {
        let metrics = Metrics()

        for number in 0..<(Metrics.seriesMax + 5) {
            metrics.increment("n_total", labels: ["id": "\(number)"])
        }

        #expect(metrics.render().contains("metrics_series_dropped_total 6\n"))
    }

    @Test func metrics_thatAreSetTogether_replaceThoseOfBefore() {
        let metrics = Metrics()
        metrics.declareGauge("a", "Empty until it is set.")
        let before = metrics.render()

        metrics.set("a", toAll: [(["l": "1"], 1), (["l": "2"], 2)])
        metrics.set("a", toAll: [(["l": "2"], 3)])

        #expect(before.hasPrefix("# HELP a Empty until it is set.\n# TYPE a gauge\n# HELP "))
        #expect(metrics.render().contains("# TYPE a gauge\na{l=\"2\"} 3\n# HELP"))
    }

    @Test func process_always_tellsItsCPUMemoryAndFiles() throws {
        let metrics = Metrics()
        ProcessFigures.report(to: metrics)

        let text = metrics.render()

        for name in [
            "process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds",
            "process_max_fds", "process_threads", "process_start_time_seconds",
            "process_virtual_memory_bytes",
        ] {
            let line = text.split(separator: "\n").first { $0.hasPrefix("\(name) ") }
            let value = line.flatMap { Double($0.dropFirst(name.count + 1)) }
            #expect((value ?? 0) > 0, "\(name)")
        }
    }

    /// A unit of systemd with `ProcSubset=pid` shows nothing of /proc but processes.
    @Test(arguments: [true, false])
    func process_inASandboxThatHidesTheMachine_stillTellsWhenItStarted(_ showsItself: Bool) throws {
        let scratch = try ScratchFolder()
        if showsItself {
            #expect(symlink("/proc/self", scratch.path + "/self") == 0)
        }
        let metrics = Metrics()
        ProcessFigures.report(to: metrics, proc: scratch.path)

        func started() -> Double? {
            metrics.render().firstMatch(of: /\nprocess_start_time_seconds ([0-9.e+]+)\n/)
                .flatMap { Double($0.1) }
        }
        let first = try #require(started())

        let now = Double(SystemClock().nowMilliseconds()) / 1000
        #expect(first <= now + 1 && first > now - 86_400)
        // Another value would count as another start.
        #expect(started() == first)
    }

    @Test func log_asJSON_writesOneObjectALine() {
        let recorder = Recorder()
        let log = Log(
            component: "a", level: .debug, format: .json, clock: ManualClock(0), sink: recorder.add)

        log.debug("two\n\"lines\" \\", ["k": "v\u{7}"])

        #expect(
            recorder.all == [
                #"{"time":"1970-01-01T00:00:00Z","level":"debug","component":"a","#
                    + #""message":"two\n\"lines\" \\","k":"v\u0007"}"#
            ])
    }

    @Test func log_ofARequest_namesIt() async {
        let recorder = Recorder()
        let log = Log(component: "a", clock: ManualClock(0), sink: recorder.add)

        RequestID.$current.withValue("r-1") { log.info("x", ["k": "v"]) }
        log.info("y")

        #expect(recorder.all.map { $0.hasSuffix("k=v request=r-1") } == [true, false])
        #expect(RequestID.isUsable("aZ0-_."))
        for odd in ["", "a b", "a\n", "é", "a=b", "\"", String(repeating: "a", count: 65)] {
            #expect(!RequestID.isUsable(odd))
        }
    }

    @Test func outage_ofManyFailures_isToldOnceAndItsEndOnce() {
        let recorder = Recorder()
        let log = Log(component: "a", clock: ManualClock(0), sink: recorder.add)
        let outage = Outage(log: log, failure: "it fails; trying again")
        let start = ContinuousClock.now

        outage.end(now: start)
        for second in 0..<100 {
            outage.note("why", now: start + .milliseconds(second * 100))
        }
        outage.note("why else", now: start + .seconds(11))
        outage.end(now: start + .seconds(12))
        outage.end(now: start + .seconds(13))
        outage.note("again", now: start + .seconds(14))

        #expect(
            recorder.all.map { $0.split(separator: " ").dropFirst().joined(separator: " ") } == [
                "level=error component=a message=\"it fails; trying again\" error=why",
                "level=error component=a message=\"it fails; trying again\" error=\"why else\"",
                "level=notice component=a message=\"it works again\" "
                    + "after=\"it fails; trying again\" seconds=12 failures=101",
                "level=error component=a message=\"it fails; trying again\" error=again",
            ])
    }

    @Test func outage_thatIsTold_staysSilent() {
        struct Told: ToldError { let isTold: Bool }
        let recorder = Recorder()
        let outage = Outage(
            log: Log(component: "a", sink: recorder.add), failure: "f", quietFor: .seconds(1))
        let start = ContinuousClock.now

        outage.note(Told(isTold: true), now: start)
        outage.end(now: start + .seconds(2))
        #expect(recorder.all.isEmpty)
        outage.note(Told(isTold: false), now: start)
        outage.end(now: start + .milliseconds(500))
        #expect(recorder.all.count == 1)
        outage.end(now: start + .milliseconds(1500))

        #expect(recorder.all.count == 2)
    }

    @Test func uuid_ofVersion7_sortsByTime() {
        var random = SeededRandom(seed: 1)

        let first = UUIDv7.make(nowMilliseconds: 0x0123_4567_89AB, random: &random)
        let second = UUIDv7.make(nowMilliseconds: 0x0123_4567_89AC, random: &random)

        #expect(first.hasPrefix("01234567-89ab-7"))
        #expect(
            first.wholeMatch(
                of: /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/) != nil)
        #expect(first < second)
    }

    @Test func backoff_overManyAttempts_growsToItsCap() {
        var random = SeededRandom(seed: 2)
        let backoff = Backoff(first: .seconds(1), max: .seconds(60), jitter: 0)
        let spread = Backoff(first: .seconds(10), max: .seconds(60))

        let delays = [Int.min, 1, 2, 3, 7, .max].map { backoff.delay(attempt: $0, random: &random) }
        let samples = (0..<200).map { _ in spread.delay(attempt: 1, random: &random).seconds }

        #expect(delays == [1, 1, 2, 4, 60, 60].map { .seconds($0) })
        #expect(samples.allSatisfy { (8...12).contains($0) })
        #expect(Set(samples).count > 100)
    }
}
