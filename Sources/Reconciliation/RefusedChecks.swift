/// The checks of a run that got an answer without a status (refused, not found, not readable) since the last status was
/// read.
///
/// One such answer while others are read is about its subscription, and ends its check. Where several come in a row
/// their cause is unknown. Then no check ends, and the next run tries again.
struct RefusedChecks {
    struct One {
        var settled: StatusCheckQueries.Settled
        var attempts: Int
        /// Whether the answer says that our key, or our way to the App Store, is wrong.
        var isAboutUs: Bool
    }

    /// From this many in a row on, they end no check. Fewer are enough where the answers are about us.
    private static let most = 15
    private static let aboutUsMost = 3

    private var waiting: [String: One] = [:]
    private var last: StatusCheckQueries.Settled?

    var count: Int { waiting.count }

    /// Whether so many came in a row that none of them says anything about its subscription.
    var areSeveral: Bool {
        waiting.count >= Self.most
            || waiting.values.count { $0.isAboutUs } >= Self.aboutUsMost
    }

    var why: String {
        "the statuses of \(count) subscriptions in a row, and none was read between them; the last of them "
            + "\(last?.originalTransactionID ?? ""): \(last?.detail ?? "")"
    }

    mutating func add(_ one: One) {
        waiting[one.settled.originalTransactionID] = one
        last = one.settled
    }

    /// Removes a check whose status a later try has read.
    mutating func remove(_ id: String) { waiting[id] = nil }

    mutating func takeAll() -> [One] {
        defer { waiting = [:] }
        return waiting.values.sorted {
            $0.settled.originalTransactionID < $1.settled.originalTransactionID
        }
    }
}
