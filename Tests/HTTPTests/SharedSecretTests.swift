import Foundation
import Testing

@testable import HTTP

@Suite struct SharedSecretTests {
    @Test(arguments: ["Bearer s3cret", "bearer s3cret", "BEARER s3cret"])
    func isBearer_whenTokenIsRight_isTrue(authorization: String) throws {
        let token = try #require(SharedSecret(fileContent: " s3cret\r\n"))

        #expect(token.isBearer(in: authorization))
    }

    @Test(arguments: [
        nil, "", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3crets", "Bearer S3cret",
        "Basic s3cret", "s3cret",
    ])
    func isBearer_whenTokenIsWrong_isFalse(authorization: String?) throws {
        let token = try #require(SharedSecret(fileContent: "s3cret"))

        #expect(!token.isBearer(in: authorization))
    }

    private static func basic(_ pair: String) -> String {
        "Basic \(Data(pair.utf8).base64EncodedString())"
    }

    @Test(arguments: ["ana:s3cret: ü", ":s3cret: ü", "anybody else:s3cret: ü"])
    func isBasicPassword_whenThePasswordIsRight_isTrueForAnyUser(pair: String) throws {
        let password = try #require(SharedSecret(fileContent: "s3cret: ü\n"))

        #expect(password.isBasicPassword(in: Self.basic(pair)))
        #expect(password.isBasicPassword(in: Self.basic(pair).replacing("Basic", with: "bAsIc")))
    }

    @Test(arguments: [
        nil, "", "Basic", "Basic ", "Basic  ", "Basic =", "Basic ====", "Basic !!!!",
        "Basic s3cret", "s3cret", "Bearer s3cret", basic(""), basic(":"), basic("ana"),
        basic("s3cret"), basic("ana:"), basic("ana:s3cre"), basic("ana:s3crets"),
        basic("ana:S3cret"), basic("ana: s3cret"), basic("ana:s3cret\n"), basic("ana:s3cret\u{0}"),
        basic("ana:b:s3cret"), basic("s3cret:ana"), basic("ana:s3cret") + " ",
        basic("ana:s3cret") + "!", String(basic("ana:s3cret").dropLast()),
        basic("ana:s3cret").replacing("Basic", with: "Digest"),
        basic("ana:s3cret").replacing("Basic ", with: "Basic\u{A0}"),
        basic(String(repeating: "s3cret", count: 2000)),
    ])
    func isBasicPassword_whenAnythingIsWrong_isFalse(authorization: String?) throws {
        let password = try #require(SharedSecret(fileContent: "s3cret"))

        #expect(!password.isBasicPassword(in: authorization))
    }

    @Test func init_whenFileIsBlank_isNil() {
        #expect(SharedSecret(fileContent: " \n") == nil)
    }
}
