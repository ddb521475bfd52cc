import Ledger
import ServiceKit
import Synchronization

/// What one claim of extensions holds: kept while its calls are out, so that those of a dead process are taken over
/// soon and those of a slow one are not.
final class ExtensionLease: Sendable {
    /// Of this claim alone: two claims of one process don't settle for each other.
    let owner: String
    private let leaseFor: Duration
    private let renewedAt: Mutex<ContinuousClock.Instant>

    init(_ world: Extender.World) {
        var random = SystemRandomNumberGenerator()
        owner = UUIDv7.make(nowMilliseconds: world.realClock.nowMilliseconds(), random: &random)
        leaseFor = world.limits.leaseFor
        renewedAt = Mutex(.now)
    }

    /// Later nothing may leave: somebody else may have taken it over.
    var leavingBefore: ContinuousClock.Instant { renewedAt.withLock { $0 } + leaseFor * 3 / 4 }

    /// Renews until it is cancelled. `statement` gets the instant and the lease's new end, real milliseconds.
    func keep(
        _ world: Extender.World,
        by statement: @Sendable (_ now: Int64, _ until: Int64) -> LedgerStatement
    ) async {
        while !Task.isCancelled {
            do {
                try await Task.sleep(for: leaseFor / 4)
                let asked = ContinuousClock.now
                let now = world.realClock.nowMilliseconds()
                let renewal = statement(now, now + leaseFor.milliseconds)
                _ = try await world.pool.withConnection { connection in
                    try await connection.pipeline([renewal])
                }
                noteRenewal(asked: asked, answered: .now)
            } catch is CancellationError {
                return
            } catch {
                world.log.warning("lease not renewed", ["error": String(describing: error)])
            }
        }
    }

    /// One that was answered after the lease's end renewed nothing for sure.
    func noteRenewal(asked: ContinuousClock.Instant, answered: ContinuousClock.Instant) {
        renewedAt.withLock { renewed in
            if answered < renewed + leaseFor { renewed = asked }
        }
    }
}
