/// A span of time as settings write it: `90s`, `15m`, `6h`, `1d`.
enum Span {
    /// The longest span is a year. Longer ones are mistakes.
    private static let secondsMax: Int64 = 366 * 86_400

    /// nil where the text is no span, or the span is 0 or longer than a year.
    static func duration(_ text: String) -> Duration? {
        let units: [Character: Int64] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
        guard let unit = text.last.flatMap({ units[$0] }),
            text.dropLast().utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let number = Int64(text.dropLast())
        else { return nil }
        let (seconds, overflow) = number.multipliedReportingOverflow(by: unit)
        guard !overflow, (1...secondsMax).contains(seconds) else { return nil }
        return .seconds(seconds)
    }
}
