import Testing

@testable import JOSE

@Suite struct JWSHeaderTests {
    @Test(arguments: ["0", "-0", "12", "-2.5e3", "1E+2", "0.1", "1e-9"])
    func header_withANumber_isRead(number: String) throws {
        let json = #"{"alg":"ES256","kid":[\#(number)]}"#

        #expect(try JWSHeader(json: Array(json.utf8)).algorithm == "ES256")
    }

    @Test(arguments: [
        "2.", "-2.e53", "01", "-", "+1", ".5", "1e", "1e+", "1.5.2", "--1", "0x1", "1e5e5",
    ])
    func header_withWhatIsNoNumber_isRefused(number: String) {
        let json = #"{"alg":"ES256","kid":[\#(number)]}"#

        let error = #expect(throws: JOSEError.self) { try JWSHeader(json: Array(json.utf8)) }

        #expect(error?.code == .header)
    }
}
