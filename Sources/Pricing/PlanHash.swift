/// The fingerprint of a plan: the same rows, facts and rules in the same order give the same text.
///
/// The instant of the plan is not part of it, nor is `notice_at`, which moves with the clock once the notice
/// could already have begun: what counts is what would be sent, when at the latest, and with which effect.
package struct PlanHash: Sendable {
    private var hasher = SHA256()

    package init(rules: RulesInForce, environment: StoreEnvironment) {
        add(Array("repricer plan 1 \(environment.rawValue)".utf8))
        for line in rules.canonicalLines { add(Array(line.utf8)) }
    }

    /// Adds one row; the order of the calls counts.
    package mutating func add(_ row: PlanRow) {
        var timeless = row
        timeless.noticeAt = nil
        add(timeless.jsonBytes)
    }

    /// 64 hexadecimal digits.
    package var text: String { hasher.hexadecimalDigest() }

    private mutating func add(_ line: [UInt8]) {
        hasher.update(line)
        hasher.update([UInt8(ascii: "\n")])
    }
}
