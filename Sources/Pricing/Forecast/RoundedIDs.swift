/// Whether a spreadsheet has rounded the ids of a file: it keeps 15 digits of a number and writes zeros for the rest.
struct RoundedIDs {
    private(set) var count = 0
    /// The number of zeros at the end of each id.
    private var zeros = Int.max
    private var digits = 0

    mutating func add(_ id: String) {
        guard zeros > 0, !id.isEmpty else { return }
        count += 1
        digits = max(digits, id.utf8.count)
        zeros = min(zeros, id.utf8.reversed().prefix { $0 == UInt8(ascii: "0") }.count)
    }

    var areRounded: Bool {
        BatchWarning.areRounded(count: count, zeros: zeros, digits: digits)
    }
}

extension BatchWarning {
    /// How many ids are needed. Fewer may all end in 0 by chance.
    private static let idsMin = 5
    /// How many digits of a number a spreadsheet keeps.
    private static let digitsKept = 15

    /// Whether ids with at most `digits` digits, which all end in at least `zeros` zeros, were rounded. Ids that end in
    /// more zeros than a spreadsheet would write are numbered that way on purpose.
    package static func areRounded(count: Int, zeros: Int, digits: Int) -> Bool {
        count >= idsMin && zeros > 0 && zeros <= max(1, digits - digitsKept)
    }
}
