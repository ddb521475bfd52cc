import Testing

@testable import JOSE

@Suite struct ScramVerifierTests {
    /// The password, salt and count of RFC 7677, section 3.
    @Test func verifier_isWhatPostgreSQLKeeps() throws {
        let salt = try #require(Base64.decode("W22ZaJ0SNY7soEsUEjb6gQ=="))

        #expect(
            ScramVerifier.text(of: "pencil", salt: salt)
                == "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
                + ":wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=")
    }
}
