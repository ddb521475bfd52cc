import AppStore
import Calls
import Postgres
import PriceChanges
import Pricing
import Reconciliation
import ServiceKit

extension DeliveryHarness {
    /// Time passes by waiting only.
    var waiting: CallPermitSource.Wait {
        { duration in
            clock.advance(by: duration)
            realClock.advance(by: duration)
            await Task.yield()
        }
    }

    func reconciler(
        _ history: any HistoryCalls, _ intake: any HistoryIntake, store: (any StoreCalls)? = nil,
        wait: CallPermitSource.Wait? = nil, log: Log = .silent
    ) -> Reconciler {
        Reconciler(
            Reconciler.Dependencies(
                pool: service, history: history, store: store ?? self.store, intake: intake,
                environment: .production, clock: clock, realClock: realClock, log: log,
                metrics: Metrics(), wait: wait ?? waiting))
    }

    func statusChecks(_ store: any StoreCalls) -> StatusCheckRunner {
        StatusCheckRunner(
            pool: service, store: store,
            permitSource: CallPermitSource(
                pool: service, endpoint: "status", perSecond: 50, clock: clock,
                silenceMax: .seconds(60), wait: waiting),
            clock: clock, realClock: realClock, log: .silent)
    }

    static func refusal(_ meaning: StoreRefusal.Meaning, _ code: Int) -> StoreAnswer {
        .refused(
            StoreRefusal(code: code, name: "code_\(code)", message: "no", meaning: meaning),
            StoreReply(httpStatus: code < 1000 ? code : code / 10_000))
    }

    func position() async throws -> HistoryQueries.Position {
        try await service.withConnection { connection in
            try await connection.read { try HistoryQueries.load(on: $0) }
        }
    }
}
