import Digests

/// The fingerprint of a plan: the same rows, facts and rules in the same order give the same text.
///
/// The instant of the plan is not part of it. Nor is `notice_at`, which moves with the clock once the notice could have
/// begun. The hash covers what would be sent, the latest instant for it, and its effect.
package struct PlanHash: Sendable {
    private var hasher = SHA256()

    package init(rules: RulesInForce, environment: StoreEnvironment) {
        add(Array("repricer plan 5 \(environment.rawValue)\n".utf8))
        for line in rules.canonicalLines { add(Array("\(line)\n".utf8)) }
    }

    /// Adds rows that `PlanRow.appendHashed` wrote. The order of the calls counts.
    package mutating func add(_ rows: [UInt8]) {
        hasher.update(rows)
    }

    /// The hash as 64 hexadecimal digits.
    package var text: String { hasher.hexadecimalDigest() }
}

extension PlanRow {
    /// Appends what the hash covers, each value after its length, so that no two rows read the same.
    package func appendHashed(to bytes: inout [UInt8]) {
        func add(_ text: String?) {
            guard let text else {
                bytes.append(UInt8(ascii: "-"))
                return
            }
            bytes.append(UInt8(ascii: "="))
            add(Int64(text.utf8.count))
            bytes.append(contentsOf: text.utf8)
        }
        func add(_ number: Int64?) {
            guard var rest = number.map(UInt64.init(bitPattern:)) else {
                bytes.append(UInt8(ascii: "-"))
                return
            }
            bytes.append(UInt8(ascii: "#"))
            repeat {
                // A byte holds seven bits; the eighth says that more follow.
                bytes.append(UInt8(truncatingIfNeeded: rest & 0x7F) | (rest > 0x7F ? 0x80 : 0))
                rest >>= 7
            } while rest > 0
        }
        add(Int64(line))
        add(originalTransactionID)
        add(sku)
        add(code?.rawValue)
        add(fault?.message)
        add(direction?.rawValue)
        add(currency)
        add(storefront)
        add(period)
        add(currentPrice)
        add(newPrice)
        add(consent?.rawValue)
        add(thresholdSource?.rawValue)
        add(verdict?.thresholdAmount)
        add(verdict?.thresholdError)
        for reason in reasons { add(reason.rawValue) }
        for rule in notKnown { add(rule.rawValue) }
        add(verdict?.lastIncrease?.sku)
        add(verdict?.lastIncrease?.at.milliseconds)
        add(verdict?.lastIncrease?.source?.rawValue)
        add(verdict?.offerEndsAt?.milliseconds)
        add(turn?.at.milliseconds)
        add(turn?.consent.rawValue)
        add(renewalAt?.milliseconds)
        add(sendAfter?.milliseconds)
        add(sendBy?.milliseconds)
        add(effectiveAt?.milliseconds)
        for dependent in dependentSKUs { add(dependent) }
        add(atRisk)
        add(seats)
        add(expectedPrice)
        add(effectiveOnOrAfter.map { Int64($0.daysSinceEpoch) })
        bytes.append(UInt8(ascii: "\n"))
    }
}
