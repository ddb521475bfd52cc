/// What the claims of one round came to: whether calls can leave at all.
struct RoundProgress {
    /// How many changes were judged, with any result.
    private(set) var judged = 0

    /// How many of them were judged by claims whose calls can still leave.
    private(set) var useful = 0

    /// How long the slowest claim took whose calls were all held back; zero where there was none.
    private(set) var slowest: Duration = .zero

    /// The time after the start of a claim within which its calls must leave. A call that would leave later is held
    /// back, and its changes are claimed again.
    let leavesWithin: Duration

    mutating func note(judged count: Int, calls: Int, took: Duration) {
        judged += count
        if calls > 0, took >= leavesWithin {
            slowest = max(slowest, took)
        } else {
            useful += count
        }
    }
}
