import Foundation
import SandboxStore

@testable import JOSE

/// Base64url one character at a time, by looking each up.
enum SlowBase64URL {
    private static let alphabet = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    static func decode(_ text: [UInt8]) -> [UInt8]? {
        var bits: [Bool] = []
        for character in text {
            guard let value = alphabet.firstIndex(of: character) else { return nil }
            for place in [32, 16, 8, 4, 2, 1] { bits.append(value & place != 0) }
        }
        let spare = bits.count % 8
        guard spare < 6, !bits.suffix(spare).contains(true) else { return nil }
        return stride(from: 0, to: bits.count - spare, by: 8).map { start in
            bits[start..<(start + 8)].reduce(0) { $0 << 1 | ($1 ? 1 : 0) }
        }
    }
}

enum Base64Target: FuzzTarget {
    static let name = "base64url"
    static let seeds = ["", "TQ", "TWE", "TWFu", "-_-_", "AAAA"].map { [UInt8]($0) }
    static let words = ["=", "+", "/", "-", "_"]

    static func check(_ input: [UInt8]) {
        let decoded = Base64URL.decode(input)
        require(decoded == SlowBase64URL.decode(input), "decoding differs from the slow reader")
        require(
            Base64URL.decode(input.lazy.map { $0 }) == decoded, "other collections read otherwise")
        if let decoded {
            require([UInt8](Base64URL.encode(decoded)) == input, "one value has two texts")
        }
        let text = Base64URL.encode(input)
        require(Base64URL.decode(text) == input, "what was encoded does not come back")
        let padded = Data(input).base64EncodedString()
        require(Base64.encode(input) == padded, "the padded form differs from Foundation's")
        require(Base64.decode(padded) == input, "the padded form does not come back")
        if let text = String(validating: input, as: UTF8.self), let bytes = Base64.decode(text) {
            require(Base64.encode(bytes) == text, "one value has two padded texts")
        }
    }
}

enum JWSTarget: FuzzTarget {
    static let name = "jws"
    static let seeds = [
        "e30.e30.AAAA", "eyJhbGciOiJFUzI1NiJ9.eyJhIjoxfQ.c2ln", "e30..", "..", "e30.e30",
    ].map { [UInt8]($0) }
    static let words = [".", "..", "e30", "="]

    static func check(_ input: [UInt8]) {
        guard let text = String(validating: input, as: UTF8.self) else { return }
        let parts = split(input, ".").map { SlowBase64URL.decode($0) }
        let expected = parts.count == 3 && parts.allSatisfy { $0 != nil } && parts[0] != []
        // The error is the other half of the answer.
        let jws = try? CompactJWS(parsing: text)
        require((jws != nil) == expected, "the splitter and the slow reader disagree")
        guard let jws else { return }
        require([jws.header, jws.payload, jws.signature] == parts, "the parts differ")
        let joined = [jws.header, jws.payload, jws.signature]
            .map { Base64URL.encode($0) }.joined(separator: ".")
        require(joined == text, "the parts do not make the same text again")
        let covered = input.count - 1 - Base64URL.encode(jws.signature).utf8.count
        require(Array(jws.signingInput) == Array(input.prefix(covered)), "the signed part differs")
        let short = try? CompactJWS(parsing: text, limit: input.count - 1)
        require(short == nil, "a text beyond its limit was read")
    }
}

enum JWSHeaderTarget: FuzzTarget {
    static let name = "jws-header"
    static let seeds = [
        #"{"alg":"ES256","x5c":["AA==","BB=="]}"#, #"{"alg":"none"}"#,
        #" { "x5c" : [ ] , "alg" : "\u0045S256" , "kid" : {"a":[1,-2.5e3,true,false,null]} } "#,
        #"{"crit":["b64"],"b64":false,"alg":"ES256"}"#,
    ].map { [UInt8]($0) }
    static let words = JSONTarget.words + ["\"alg\"", "\"x5c\"", "\"crit\"", "ES256"]

    static func check(_ input: [UInt8]) {
        guard let header = try? JWSHeader(json: input) else { return }
        require(SlowJSON.isJSON(input), "a header that is no JSON was read")
        // Foundation drops a U+FEFF after an escape, and knows no number beyond Double.
        guard !contains(input, [0xEF, 0xBB, 0xBF]),
            let any = try? JSONSerialization.jsonObject(with: Data(input)),
            let object = any as? [String: Any]
        else { return }
        if let algorithm = header.algorithm {
            require(object["alg"] as? String == algorithm, "alg differs")
        }
        if let certificates = header.certificates {
            require(object["x5c"] as? [String] == certificates, "x5c differs")
        }
        require(header.isCritical == (object["crit"] != nil), "crit differs")
    }
}

enum CertificateTarget: FuzzTarget {
    static let name = "certificate"
    static let words = ["\u{30}", "\u{2}", "\u{3}", "\u{5}", "\u{6}", "\u{4}", "\u{1}"]

    static var seeds: [[UInt8]] {
        // A fresh chain each time: the form matters, and bytes kept here would only be noise.
        let year: Int64 = 365 * 86_400_000
        let now = Int64(Date().timeIntervalSince1970) * 1000
        let authority = try? CertificateAuthority(validFrom: now, validUntil: now + year)
        let chain = try? authority?.chainDER()
        return chain ?? []
    }

    static func check(_ input: [UInt8]) {
        guard let certificate = Certificate(der: input) else { return }
        _ = (certificate.validity, certificate.isAuthority, certificate.isSignerOnly)
        _ = (certificate.publicKey, certificate.fingerprint)
        _ = certificate.hasExtension("1.2.840.113635.100.6.11.1")
        require(Certificate(der: input + [0]) == nil, "a byte after the certificate was ignored")
    }
}
