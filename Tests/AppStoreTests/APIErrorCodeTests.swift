import Testing

@testable import AppStore

@Suite struct APIErrorCodeTests {
    @Test func table_whenCounted_holdsEveryDocumentedCode() {
        let statuses = Set(
            APIErrorCode.documented.keys.map { APIErrorCode(rawValue: $0).httpStatus })

        #expect(APIErrorCode.documented.count + APIErrorCode.ofOtherRequests.count == 129)
        #expect(statuses == [400, 401, 403, 404, 429, 500])
    }

    @Test(
        arguments: [
            (4_000_082, false, .refresh), (4_000_082, true, .refresh),
            (4_000_097, false, .checkStatus), (4_000_097, true, .checkStatus),
            (4_000_205, false, .reject), (4_000_205, true, .checkStatus),
            (4_000_028, true, .reject), (4_000_193, false, .reject), (4_000_221, false, .reject),
            (4_030_010, false, .reject), (4_040_010, false, .reject), (4_009_999, false, .reject),
            (4_040_002, false, .retrySame),
            (4_010_000, false, .haltService), (4_010_001, false, .haltService),
            (4_290_000, false, .waitUntil), (429, false, .waitUntil),
            (5_000_000, false, .retrySame), (5_000_001, true, .retrySame),
            (5_039_999, true, .retrySame),
            (408, false, .retrySame), (502, false, .retrySame),
            (401, false, .haltService), (403, false, .haltService), (404, false, .haltService),
            (302, false, .haltService),
        ] as [(Int, Bool, APIErrorCode.Disposition)])
    func disposition_whenCodeIsGiven_isFixed(
        code: Int, onRetry: Bool, expected: APIErrorCode.Disposition
    ) {
        #expect(APIErrorCode(rawValue: code).disposition(onRetry: onRetry) == expected)
    }

    /// About the subscription, its items or the price: the change ends.
    private static let ofTheChange: Set<Int> = [
        4_000_006, 4_000_028, 4_000_053, 4_000_086, 4_000_087, 4_000_114, 4_000_121, 4_000_122,
        4_000_131, 4_000_132, 4_000_133, 4_000_135, 4_000_136, 4_000_168, 4_000_176, 4_000_177,
        4_000_179, 4_000_181, 4_000_186, 4_000_192, 4_000_193, 4_000_194, 4_000_205, 4_000_214,
        4_000_220, 4_000_221, 4_030_008, 4_030_009, 4_030_010, 4_030_011, 4_030_013, 4_030_015,
        4_030_020, 4_030_021, 4_030_022, 4_030_023, 4_030_024, 4_030_025, 4_030_027, 4_040_010,
        4_040_016,
    ]

    /// About the call itself, or the product's set-up: the batch stops.
    private static let ofTheCall: Set<Int> = [
        4_000_033, 4_000_063, 4_000_079, 4_000_080, 4_000_081, 4_000_083, 4_000_084, 4_000_085,
        4_000_088, 4_000_089, 4_000_091, 4_000_092, 4_000_093, 4_000_094, 4_000_095, 4_000_096,
        4_000_098, 4_000_099, 4_000_100, 4_000_101, 4_000_102, 4_000_103, 4_000_104, 4_000_105,
        4_000_106, 4_000_107, 4_000_109, 4_000_110, 4_000_111, 4_000_112, 4_000_113, 4_000_115,
        4_000_116, 4_000_117, 4_000_118, 4_000_119, 4_000_123, 4_000_124, 4_000_125, 4_000_126,
        4_000_127, 4_000_128, 4_000_129, 4_000_130, 4_000_137, 4_000_139, 4_000_140,
        4_000_141, 4_000_142, 4_000_143, 4_000_144, 4_000_145, 4_000_146, 4_000_147, 4_000_148,
        4_000_149, 4_000_150, 4_000_151, 4_000_152, 4_000_153, 4_000_154, 4_000_155, 4_000_156,
        4_000_157, 4_000_158, 4_000_159, 4_000_160, 4_000_165, 4_000_166, 4_000_167, 4_000_169,
        4_000_171, 4_000_172, 4_000_173, 4_000_174, 4_000_178, 4_000_180, 4_000_182, 4_000_184,
        4_000_222, 4_000_223,
    ]

    @Test(arguments: Array(APIErrorCode.documented.keys) + APIErrorCode.ofOtherRequests)
    func disposition_ofEachDocumentedCode_isTheOneDecided(code: Int) {
        let expected: APIErrorCode.Disposition? =
            switch code {
            case 4_000_082: .refresh
            case 4_000_097: .checkStatus
            case 4_000_134: .haltStorefront
            case 4_010_000: .haltService
            case 4_290_000: .waitUntil
            case 5_000_000, 5_000_001: .retrySame
            case let code where Self.ofTheChange.contains(code): .reject
            case let code where Self.ofTheCall.contains(code): .haltBatch
            default: nil
            }

        #expect(APIErrorCode(rawValue: code).disposition(onRetry: false) == expected)
    }

    @Test func name_whenUndocumented_isNil() {
        #expect(APIErrorCode(rawValue: 4_009_999).name == nil)
        #expect(APIErrorCode(rawValue: -1).name == nil)
        #expect(APIErrorCode(rawValue: 4_009_999).label == "code_4009999")
        #expect(APIErrorCode(rawValue: 413).label == "without_code")
        #expect(APIErrorCode(rawValue: 4_000_082).label == "InvalidConsistencyTokenError")
        #expect(APIErrorCode(rawValue: .max).description == "\(Int.max)")
    }
}
