/// Apple's limits: calls a second, enforced over an hour of the store's clock.
struct RateLimits: Sendable {
    /// Calls a second in Production; the test environment has a tenth.
    static let perSecond: [String: Int64] = [
        "changePrice": 50, "cancel": 5, "status": 50, "history": 50, "test": 1, "testStatus": 1,
        "extend": 20, "extendAll": 1,
    ]

    var isProduction: Bool
    private var hour: Int64 = .min
    private var used: [String: Int64] = [:]

    init(isProduction: Bool) {
        self.isProduction = isProduction
    }

    /// Counts a call; when the hour's calls are used up, returns when the next hour begins.
    mutating func take(_ endpoint: String, now: Int64) -> Int64? {
        let current = now / Milliseconds.hour
        if current != hour {
            hour = current
            used = [:]
        }
        let perHour = (RateLimits.perSecond[endpoint] ?? 50) * 3600 / (isProduction ? 1 : 10)
        let count = used[endpoint, default: 0]
        guard count < perHour else { return (current + 1) * Milliseconds.hour }
        used[endpoint] = count + 1
        return nil
    }
}
