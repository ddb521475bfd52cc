@testable import AppStore

/// What the contract says of each code, written out by hand: the product's own table is what is tested.
enum RefusalTable {
    /// Codes that say something of this customer, item or price, and nothing of our key, of the form of the call or of what
    /// the App Store does not find. Where others succeed they are final.
    static let final: Set<Int> = [
        4_000_006, 4_000_008, 4_000_023, 4_000_028, 4_000_053, 4_000_086, 4_000_087, 4_000_097,
        4_000_114,
        4_000_121, 4_000_122, 4_000_131, 4_000_132, 4_000_133, 4_000_135, 4_000_136, 4_000_168,
        4_000_176,
        4_000_177, 4_000_179, 4_000_181, 4_000_186, 4_000_192, 4_000_193, 4_000_194, 4_000_205,
        4_000_214,
        4_000_220, 4_000_221, 4_030_004, 4_030_005, 4_030_007, 4_030_008, 4_030_009, 4_030_010,
        4_030_011,
        4_030_013, 4_030_015, 4_030_020, 4_030_021, 4_030_022, 4_030_023, 4_030_024, 4_030_025,
        4_030_027, 4_030_028,
    ]

    /// The refusals that the App Store Server API adds. Three more of "not found" may be tried again, and refuse nothing.
    static let ofServerAPI = [
        4_000_000, 4_000_002, 4_000_008, 4_000_009, 4_000_010, 4_000_011, 4_000_012, 4_000_013,
        4_000_014,
        4_000_015, 4_000_016, 4_000_017, 4_000_023, 4_000_027, 4_000_031, 4_030_004, 4_030_005,
        4_030_007, 4_030_028,
        4_040_001, 4_040_003, 4_040_005, 4_040_007, 4_040_008, 4_040_009,
    ]

    static let undocumented = (1...30).map { number in
        [4_000_900, 4_030_900, 4_040_900, 4_090_900, 4_220_900][number % 5] + number
    }

    static let documented =
        Set(APIErrorCode.documented.keys).union(APIErrorCode.ofOtherRequests).union(ofServerAPI)
        .sorted()

    /// A silence and an error of Apple's own are no refusals; their rows of the table have tests of their own.
    static let refusals =
        (documented + undocumented).filter { $0 / 10_000 != 429 && $0 / 10_000 != 500 }
}
