import Testing

@testable import AppStore

@Suite struct APIErrorCodeTests {
    @Test func table_whenCounted_holdsEveryDocumentedCode() {
        let statuses = Set(APIErrorCode.names.keys.map { APIErrorCode(rawValue: $0).httpStatus })

        #expect(APIErrorCode.names.count == 129)
        #expect(statuses == [400, 401, 403, 404, 429, 500])
        #expect(APIErrorCode.listedForPriceChange.isSubset(of: APIErrorCode.names.keys))
        #expect(APIErrorCode(rawValue: 4_000_193).isListedForPriceChange)
        #expect(!APIErrorCode(rawValue: 4_000_221).isListedForPriceChange)
    }

    @Test(
        arguments: [
            (4_000_082, false, .refresh), (4_000_082, true, .refresh),
            (4_000_097, false, .look), (4_000_097, true, .look),
            (4_000_205, false, .reject), (4_000_205, true, .look),
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

    @Test func name_whenUndocumented_isNil() {
        #expect(APIErrorCode(rawValue: 4_009_999).name == nil)
        #expect(APIErrorCode(rawValue: -1).name == nil)
        #expect(APIErrorCode(rawValue: .max).description == "\(Int.max)")
    }
}
