import AppStore
import Calls
import Facts
import Foundation
import Glibc
import PriceChanges
import Pricing
import ServiceKit
import Synchronization

/// Price changes a second from queued to stored answer, by the scheduler of `serve` against an App Store that answers
/// at once. `rate=` is the limit in calls a second, 0 for none; `calls=` ends the run; `lanes=`, `claim=` and
/// `replicas=` size it. Prints one JSON object; `cpu_share` is the scheduler's, without the CPU time of the simulated
/// App Store in this process.
enum DispatchRate {
    static func run(_ options: Options) async throws {
        let calls = try options.integer("calls")
        let store = InstantStore()
        let rate = try options.integer("rate")
        var limits = Scheduler.Limits()
        limits.changePricePerSecond = rate > 0 ? Double(rate) : nil
        limits.lanes = try options.integer("lanes", 1)
        limits.requestsPerClaim = try options.integer("claim", limits.requestsPerClaim)
        let conninfo = try options.text("database")
        let replicas = (0..<(try options.integer("replicas", 1))).map { _ in
            replica(conninfo, store, limits)
        }

        let cpu = cpuSeconds()
        let services = replicas.map { replica in Task { try await replica.scheduler.run() } }
        let started = ContinuousClock.now
        // It checks rarely at a limited rate, because each check wakes threads, which counts as the scheduler's CPU
        // time.
        let glance: Duration = .milliseconds(rate > 0 ? 500 : 50)
        while store.count < calls {
            guard ContinuousClock.now - started < .seconds(1800) else {
                throw BenchmarkFailure("only \(store.count) of \(calls) calls in half an hour")
            }
            try await Alarm.shared.wait(for: glance)
        }
        for service in services { service.cancel() }
        for service in services {
            _ = try? await service.value  // Cancelled: it stores what is out, and ends.
        }
        let seconds = (ContinuousClock.now - store.origin).seconds - (store.instants.first ?? 0)
        let used = cpuSeconds() - cpu - store.cpuSeconds
        for replica in replicas { await replica.pool.close() }
        print(
            figures(
                store.instants, settledIn: seconds, cpu: used, limit: rate))
    }

    /// One replica as a process of `serve` would be, with connections and memory of its own.
    private static func replica(
        _ conninfo: String, _ store: InstantStore, _ limits: Scheduler.Limits
    ) -> (pool: DatabasePool, scheduler: Scheduler) {
        let pool = DatabasePool(
            conninfo: conninfo, applicationName: "benchmarks", size: limits.lanes + 2)
        var engineLimits = CallEngine.Limits()
        engineLimits.callsPerClaim = limits.requestsPerClaim
        return (
            pool,
            Scheduler(
                CallEngine(
                    pool: pool, environment: .production, clock: SystemClock(),
                    realClock: SystemClock(),
                    log: Log(component: "benchmarks", level: .warning), metrics: Metrics(),
                    limits: engineLimits), store: store, limits: limits)
        )
    }

    private static func figures(
        _ calls: [Double], settledIn seconds: Double, cpu: Double, limit: Int
    ) -> String {
        let leaving = max(1e-9, (calls.last ?? 0) - (calls.first ?? 0))
        let tenth = max(1, calls.count / 10)
        let first = Double(tenth) / max(1e-9, calls[min(tenth, calls.count - 1)] - calls[0])
        let last =
            Double(tenth)
            / max(1e-9, calls[calls.count - 1] - calls[max(0, calls.count - 1 - tenth)])
        return String(
            format:
                "{\"calls\":%d,\"seconds\":%.2f,\"per_second\":%.1f,\"calls_per_second\":%.1f,\"last_to_first_tenth\":%.3f,"
                + "\"cpu_share\":%.4f,\"most_in_a_second\":%d,\"limit\":%d}",
            calls.count, seconds, Double(calls.count) / max(1e-9, seconds),
            Double(max(0, calls.count - 1)) / leaving, last / first,
            cpu / max(1e-9, seconds), most(of: calls, in: 1), limit)
    }

    private static func most(of calls: [Double], in window: Double) -> Int {
        var most = 0
        var first = 0
        for (index, call) in calls.enumerated() {
            while call - calls[first] >= window { first += 1 }
            most = max(most, index - first + 1)
        }
        return most
    }

    private static func cpuSeconds() -> Double {
        var usage = rusage()
        getrusage(0, &usage)
        return Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
            + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6
    }
}

/// Applies every call at once, and records its instant.
private final class InstantStore: StoreCalls {
    private struct Heard {
        var instants: [Double] = []
        var cpuSeconds = 0.0
    }

    private let heard = Mutex(Heard())
    let origin = ContinuousClock.now

    var count: Int { heard.withLock { $0.instants.count } }
    var instants: [Double] { heard.withLock { $0.instants.sorted() } }
    /// The CPU time of threads while they ran in this object.
    var cpuSeconds: Double { heard.withLock { $0.cpuSeconds } }

    func changePrice(
        _ intent: PriceChangeIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        let began = Self.threadSeconds()
        let at = (ContinuousClock.now - origin).seconds
        let answer = answer(to: intent)
        heard.withLock { heard in
            heard.instants.append(at)
            heard.cpuSeconds += Self.threadSeconds() - began
        }
        return .answered([answer], StoreReply(httpStatus: 200))
    }

    private static func threadSeconds() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    func checkStatus(transactionID: String) async -> StoreAnswer {
        .unknown(reason: "the benchmark loses no answer", StoreReply())
    }

    private func answer(to intent: PriceChangeIntent) -> SubscriptionEvent {
        var event = SubscriptionEvent(
            key: .init(
                signedAt: Instant(milliseconds: SystemClock().nowMilliseconds()),
                evidenceID: intent.requestReferenceID),
            source: .response, originalTransactionID: intent.transactionID)
        var renewal = RenewalStatement(
            items: intent.items.map {
                var item = StatementItem(sku: $0.sku)
                item.price = $0.price
                item.increaseStatus = "SCHEDULED"
                item.increasePrice = $0.price
                return item
            })
        renewal.autoRenewStatus = 1
        renewal.consistencyToken = "next"
        event.renewal = renewal
        return event
    }
}
