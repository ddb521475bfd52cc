/// How long one period of a subscription or an offer lasts. An unknown text is kept.
package enum Period: Hashable, Sendable {
    case week, month, twoMonths, threeMonths, sixMonths, year
    /// Any other text. It can still be stepped where it is an ISO 8601 period of one unit.
    case other(String)

    package init(_ text: String) {
        switch text {
        case "P1W": self = .week
        case "P1M": self = .month
        case "P2M": self = .twoMonths
        case "P3M": self = .threeMonths
        case "P6M": self = .sixMonths
        case "P1Y": self = .year
        default: self = .other(text)
        }
    }

    /// The period as Apple writes it.
    package var text: String {
        switch self {
        case .week: "P1W"
        case .month: "P1M"
        case .twoMonths: "P2M"
        case .threeMonths: "P3M"
        case .sixMonths: "P6M"
        case .year: "P1Y"
        case .other(let text): text
        }
    }

    /// Which amount of a storefront's threshold applies.
    package var kind: PeriodKind { self == .year ? .annual : .nonannual }

    /// One step on the calendar; nil for a text that cannot be stepped.
    package enum Step: Hashable, Sendable {
        case days(Int)
        case months(Int)
    }

    package var step: Step? {
        switch self {
        case .week: .days(7)
        case .month: .months(1)
        case .twoMonths: .months(2)
        case .threeMonths: .months(3)
        case .sixMonths: .months(6)
        case .year: .months(12)
        case .other(let text): Period.parse(text)
        }
    }

    private static func parse(_ text: String) -> Step? {
        let bytes = Array(text.utf8)
        guard bytes.count >= 3, bytes.count <= 6, bytes[0] == UInt8(ascii: "P"),
            let count = decimalNumber(bytes[1..<(bytes.count - 1)]), count > 0
        else { return nil }
        switch bytes[bytes.count - 1] {
        case UInt8(ascii: "D"): return .days(count)
        case UInt8(ascii: "W"): return .days(count * 7)
        case UInt8(ascii: "M"): return .months(count)
        case UInt8(ascii: "Y"): return .months(count * 12)
        default: return nil
        }
    }
}

/// Apple's two kinds of consent threshold.
package enum PeriodKind: String, Hashable, Sendable, CaseIterable {
    case annual, nonannual
}
