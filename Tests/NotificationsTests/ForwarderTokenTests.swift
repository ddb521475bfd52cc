import Testing

@testable import Notifications

@Suite struct ForwarderTokenTests {
    @Test(arguments: ["Bearer s3cret", "bearer s3cret", "BEARER s3cret"])
    func accepts_whenTokenIsRight_isTrue(authorization: String) throws {
        let token = try #require(SharedSecret(fileContent: " s3cret\r\n"))

        #expect(token.isBearer(in: authorization))
    }

    @Test(arguments: [
        nil, "", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3crets", "Bearer S3cret",
        "Basic s3cret", "s3cret",
    ])
    func accepts_whenTokenIsWrong_isFalse(authorization: String?) throws {
        let token = try #require(SharedSecret(fileContent: "s3cret"))

        #expect(!token.isBearer(in: authorization))
    }

    @Test func init_whenFileIsBlank_isNil() {
        #expect(SharedSecret(fileContent: " \n") == nil)
    }
}
