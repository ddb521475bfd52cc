import Synchronization

/// How many requests one claim takes. Calls leave once their claim is committed, and must have left soon after it began:
/// a claim that is too large for the machine of the moment is made and put back in vain. So the first is small, and each
/// that took little time is followed by one twice its size.
final class ClaimSize: Sendable {
    /// No claim is made smaller: most of its time is then not its size's.
    static let least = 25

    /// Of the first claim.
    static let first = 50

    private let most: Int
    /// A claim that takes longer is halved; one that takes half of it is doubled.
    private let aim: Duration
    private let size: Mutex<Int>

    init(most: Int, aim: Duration) {
        self.most = most
        self.aim = aim
        size = Mutex(min(most, Self.first))
    }

    /// The size of the next claim.
    var next: Int { size.withLock { $0 } }

    /// A claim found `count` requests, and took so long.
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
