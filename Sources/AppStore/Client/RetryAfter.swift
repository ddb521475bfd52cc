internal import Pricing
internal import ServiceKit

/// Reads `Retry-After`: the App Store sends UNIX milliseconds; proxies send seconds or a date.
enum RetryAfter {
    /// The longest wait. Apple counts its limits by the hour, so a longer wait cannot be meant.
    static let waitMax: Int64 = 2 * 60 * 60 * 1000
    /// The wait where the header has no usable value.
    static let waitDefault: Int64 = 60 * 1000

    /// How far our clock may be from the App Store's, in milliseconds. One that is further off has its tokens refused;
    /// a rehearsal's clock is not that of the answer at all.
    private static let skewMax: Int64 = 10 * 60 * 1000

    /// The instant by our clock, after `now` and never later than `waitMax` after it. An instant that has passed is not
    /// usable, because one of the clocks is wrong.
    ///
    /// An instant in the header is by the clock of the answer. Its header `date` shows how far our clock is from that.
    static func instant(_ value: String?, now: Int64, date: String? = nil) -> Instant {
        usable(value, now: now, date: date)
            ?? Instant(milliseconds: now).advanced(by: waitDefault)
    }

    /// The same; nil where the header has no usable value.
    static func usable(_ value: String?, now: Int64, date: String? = nil) -> Instant? {
        let start = Instant(milliseconds: now)
        let skew = date.flatMap(HTTPDate.parse).map { now &- $0 }
            .flatMap { $0.magnitude <= UInt64(skewMax) ? $0 : nil }
        let named = value.flatMap { milliseconds($0, now: now, skew: skew ?? 0) }
            .map(Instant.init(milliseconds:))
        let usable = named.flatMap { $0 > start ? $0 : nil }
        return usable.map { min($0, start.advanced(by: waitMax)) }
    }

    private static func milliseconds(_ value: String, now: Int64, skew: Int64) -> Int64? {
        let text = value.filter { $0 != " " && $0 != "\t" }
        guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return HTTPDate.parse(value).map { $0 + skew }
        }
        guard let number = Int64(text) else { return .max }
        if number >= 1_000_000_000_000 {
            let (ours, isTooMuch) = number.addingReportingOverflow(skew)
            return isTooMuch ? .max : ours
        }
        // A number of seconds above thirty years must be a point in time.
        if number >= 1_000_000_000 { return number * 1000 + skew }
        // A refusal with a wait of 0 would otherwise be repeated without a pause.
        return Instant(milliseconds: now).advanced(by: max(1, number) * 1000).milliseconds
    }
}
