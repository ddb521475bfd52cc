import Postgres

/// Never two calls in flight for one subscription: a price change, a cancellation and an extension of it alone change
/// it, and wait for one another. Each asks under the subscription's lock, by a statement that begins after the lock.
///
/// - A new call waits for one of another kind that is out, or whose outcome is not known: it may still be applied. One
///   that nobody went on with for two minutes holds nobody up: its batch is paused, or its endpoint silent.
/// - What is sent once more waits for a call that is out, and for the outcome of one that began earlier, never of one
///   that began later: of two whose outcome is unknown one can always go on.
/// - Looks wait for nobody.
enum OtherCalls {
    enum Kind: Int, CaseIterable {
        case priceChange, cancel, renewalExtension

        /// Where its calls are.
        fileprivate var table: SQL {
            switch self {
            case .priceChange: "repricer.price_change_requests"
            case .cancel: "repricer.cancel_requests"
            case .renewalExtension: "repricer.extension_calls"
            }
        }

        fileprivate var leaseUntil: SQL {
            switch self {
            case .priceChange, .cancel: "o.lease_until"
            case .renewalExtension: "o.leased_until"
            }
        }

        /// The business clock.
        fileprivate var began: SQL {
            switch self {
            case .priceChange, .cancel: "o.prepared_at"
            case .renewalExtension: "o.called_at"
            }
        }

        /// Somebody holds its lease for a call or a look. An extension that is held has its lease's end as next attempt.
        fileprivate func isOut(realNow: Int64) -> SQL {
            switch self {
            case .priceChange, .cancel:
                "(o.next_attempt_at IS NULL AND o.lease_until > \(timestamp: realNow))"
            case .renewalExtension:
                "(o.state = 'sending' AND o.leased_until > \(timestamp: realNow))"
            }
        }

        /// It is out, or was to be gone on with two minutes ago at the earliest.
        fileprivate func isAlive(realNow: Int64) -> SQL {
            let isWaitedFor: SQL =
                switch self {
                case .priceChange, .cancel: ""
                // No look ends it: repeated in vain for an hour, it has no claim on the subscription any more.
                case .renewalExtension:
                    """
                    AND (o.attempts < \(OtherCalls.extensionsWaitedFor)
                        OR \(fragment: isOut(realNow: realNow)))
                    """
                }
            return """
                (coalesce(o.next_attempt_at, \(fragment: leaseUntil))
                    > \(timestamp: realNow - OtherCalls.forgottenAfter) \(fragment: isWaitedFor))
                """
        }
    }

    /// In milliseconds of real time: longer than a call can be on its way.
    static let forgottenAfter: Int64 = 120_000

    /// Attempts of an extension.
    static let extensionsWaitedFor = 20

    /// Nothing holds up a new call for the subscription `id`. Cheap enough for every claim: two steps of small indexes.
    static func none(besides kind: Kind, of id: SQL, realNow: Int64) -> SQL {
        none(besides: kind, of: id) { $0.isAlive(realNow: realNow) }
    }

    /// Nothing holds up a call for the subscription `id` that is sent once more. `since`: when it began, of the business
    /// clock.
    static func none(besides kind: Kind, of id: SQL, since: SQL, realNow: Int64) -> SQL {
        none(besides: kind, of: id) { other in
            // Of two that began at one instant the same one goes first, whoever asks.
            let isEarlier: SQL = other.rawValue < kind.rawValue ? "<=" : "<"
            return """
                (\(fragment: other.isOut(realNow: realNow)) OR (\(fragment: other.isAlive(realNow: realNow))
                    AND \(fragment: other.began) \(fragment: isEarlier) \(fragment: since)))
                """
        }
    }

    private static func none(besides kind: Kind, of id: SQL, _ waits: (Kind) -> SQL) -> SQL {
        let others = Kind.allCases.filter { $0 != kind }.map { other -> SQL in
            // OFFSET 0: asked for each subscription by itself, never of all at once.
            """
            NOT EXISTS (
                SELECT 1 FROM \(fragment: other.table) o
                WHERE o.original_transaction_id = \(fragment: id)
                    AND o.state IN ('sending', 'unknown') AND \(fragment: waits(other)) OFFSET 0)
            """
        }
        return others.reduce("true") { "\(fragment: $0) AND \(fragment: $1)" }
    }
}
