/// The checks of a run that got an answer without a status since a status was read: refused, not found, not readable.
///
/// One such answer beside others that are read is about its subscription, and the check ends by it. Where several come
/// in a row nobody knows what they are about. No check ends by them then: the next run asks again.
struct RefusedChecks {
    struct One {
        var settled: StatusCheckQueries.Settled
        var attempts: Int
        /// Whether the answer says that our key, or our way to the App Store, is wrong.
        var isAboutUs: Bool
    }

    /// How many in a row are one too many. Fewer are enough where the answers are about us.
    private static let most = 15
    private static let aboutUsMost = 3

    private var waiting: [String: One] = [:]
    private var last: StatusCheckQueries.Settled?

    var count: Int { waiting.count }

    /// Whether so many came in a row that each of them says nothing of its subscription.
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

    /// A status was read of it after all, by a later try.
    mutating func remove(_ id: String) { waiting[id] = nil }

    mutating func takeAll() -> [One] {
        defer { waiting = [:] }
        return waiting.values.sorted {
            $0.settled.originalTransactionID < $1.settled.originalTransactionID
        }
    }
}
