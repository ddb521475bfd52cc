import Synchronization

/// How many requests one claim takes. Calls are sent once their claim is committed, and must be sent soon after it
/// began. A claim that is too large for the present load is wasted, because its calls are put back. So the first claim
/// is small, and each claim that took little time is followed by one of twice its size.
final class ClaimSize: Sendable {
    /// The smallest size. A smaller claim would spend most of its time on fixed costs.
    static let least = 25

    /// The size of the first claim.
    static let first = 50

    private let most: Int
    /// A claim that takes longer than this is halved. A claim that takes less than half of it is doubled.
    private let aim: Duration
    private let size: Mutex<Int>

    init(most: Int, aim: Duration) {
        self.most = most
        self.aim = aim
        size = Mutex(min(most, Self.first))
    }

    /// The size of the next claim.
    var next: Int { size.withLock { $0 } }

    /// Notes that a claim found `count` requests and how long it took.
    func note(_ count: Int, took: Duration) {
        guard count > 0 else { return }
        size.withLock { size in
            if took > aim {
                size = min(most, max(min(Self.least, most), min(size, count) / 2))
            } else if took < aim / 2, count >= size {
                size = min(most, size * 2)
            }
        }
    }
}
