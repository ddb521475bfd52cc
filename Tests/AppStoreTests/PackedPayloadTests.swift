import Digests
import Foundation
import JOSE
import Pricing
import TestSupport
import Testing

@testable import AppStore

@Suite(.ownThread) struct PackedPayloadTests {
    /// Any three parts: packing asks for no valid signature.
    static func jws(_ payload: String, header: String = "eyJhbGciOiJFUzI1NiJ9") -> String {
        "\(header).\(Base64URL.encode(Array(payload.utf8))).\(Base64URL.encode([UInt8](repeating: 7, count: 64)))"
    }

    static func unpacked(_ packed: PayloadPacker.Packed) throws -> String {
        try PackedPayload(bytes: packed.bytes, headers: packed.headers.map(\.text)).text()
    }

    @Test func pack_ofARealNotification_splitsAllThreeJWSAndComesBack() throws {
        let signed = try Fixture.sign(Fixture.notification(Fixture.data()))

        let packed = try #require(PayloadPacker().pack(signed))

        #expect(try Self.unpacked(packed) == signed)
        #expect(packed.headers.count == 1)
        #expect(packed.bytes.count * 3 < signed.utf8.count)
        let header = try #require(packed.headers.first)
        #expect(SHA256.hexadecimalDigest(of: header.text) == header.digest.map { hex($0) }.joined())
    }

    @Test func contents_ofARealNotification_areThePayloadsWithoutHeaders() throws {
        let signed = try Fixture.sign(Fixture.notification(Fixture.data()))
        let packed = try #require(PayloadPacker().pack(signed))

        let contents = try PackedPayload(bytes: packed.bytes, headers: []).contents()

        let outer = try #require(
            JSONSerialization.jsonObject(with: Data(contents.payload)) as? JSON)
        let data = try #require(outer["data"] as? JSON)
        let mark = try #require(data["signedTransactionInfo"] as? String)
        let transaction = try #require(contents.payload(markedBy: mark))
        let decoded = try #require(
            JSONSerialization.jsonObject(with: Data(transaction)) as? JSON)
        #expect(decoded["transactionId"] as? String == "2000000099999999")
        #expect(contents.nested.count == 2)
        #expect(contents.payload(markedBy: "#2") == nil)
        #expect(contents.payload(markedBy: "2000") == nil)
    }

    /// What cannot be taken apart, or not wholly: it comes back all the same, or is refused.
    @Test(arguments: [
        ("", false), (".", false), ("..", false), ("a.b", false), ("e30.e30", false),
        ("e30..", true), ("e30.e30.", true), (".e30.e30", false), ("e30.e30.e30.e30", false),
        ("e30.e3A=.e30", false), ("e30.e31.e30", false), ("e30.e.e30", false),
        ("e30.e+0.e30", false), ("e30.é.e30", false), ("e\u{0}0.e30.e30", true),
        ("e30.e30.e31", false), (" e30.e30.e30", true), ("e30.e30.e30\n", false),
    ])
    func pack_ofAnOddText_comesBackOrIsRefused(_ text: String, _ isPacked: Bool) throws {
        let packed = PayloadPacker().pack(text)

        #expect((packed != nil) == isPacked)
        if let packed { #expect(try Self.unpacked(packed) == text) }
    }

    /// Texts that look like a nested JWS, and the number of those that are taken apart.
    @Test(arguments: [
        (#"{"signedTransactionInfo":"e30.e30.e30"}"#, 1),
        (#"{"signedTransactionInfo" : "e30.e30.e30"}"#, 1),
        (#"{"signedTransactionInfo":"e30.e31.e30"}"#, 0),
        (#"{"signedTransactionInfo":"e30.e30.e30"#, 0),
        (#"{"offerIdentifier":"e30.e30.e30"}"#, 0),
        (#"{"a\"signed":"e30.e30.e30"}"#, 1),
        (#"["signedA","e30.e30.e30"]"#, 0),
        (#"{"signed":"","signedB":"e30.e30.e30"}"#, 1),
        (#"{"signedA":"e30.e30.e30","signedB":"e30.e30.e30","signedC":"e30.e30.e30"}"#, 3),
        ("{" + (0..<20).map { #""signed\#($0)":"e30.e30.e30""# }.joined(separator: ",") + "}", 8),
        ("", 0), ("\"", 0), ("\"\"\"\"\"\"\"", 0), ("\u{FEFF}\u{0}{", 0),
    ])
    func pack_ofNestedTexts_takesOnlySignedOnesApart(_ payload: String, _ nested: Int) throws {
        let signed = Self.jws(payload)

        let packed = try #require(PayloadPacker().pack(signed))

        #expect(try Self.unpacked(packed) == signed)
        let contents = try PackedPayload(bytes: packed.bytes, headers: []).contents()
        #expect(contents.nested.count == nested)
    }

    @Test func pack_ofSeveralHeaders_keepsEachOnce() throws {
        let inner = [
            Self.jws("{}", header: "aaaa"), Self.jws("{}"), Self.jws("{}", header: "aaaa"),
            Self.jws("{}", header: "bbbb"),
        ]
        let members = inner.enumerated().map { #""signed\#($0.offset)":"\#($0.element)""# }
        let signed = Self.jws("{\(members.joined(separator: ","))}")

        let packed = try #require(PayloadPacker().pack(signed))

        #expect(try Self.unpacked(packed) == signed)
        #expect(
            packed.headers.map { String(decoding: $0.text, as: UTF8.self) }
                == ["eyJhbGciOiJFUzI1NiJ9", "aaaa", "bbbb"])
    }

    /// What a fault of a packer may lose, and whether that is nothing.
    private typealias Loss = @Sendable (inout PayloadPacker.Packed) -> Void
    private static let losses: [(name: String, isNone: Bool, lose: Loss)] = [
        ("nothing", true, { _ in }),
        ("the last byte", false, { $0.bytes.removeLast() }),
        ("a bit", false, { $0.bytes[$0.bytes.count / 2] ^= 1 }),
        ("all but its version", false, { $0.bytes = Array($0.bytes.prefix(1)) }),
        ("the headers", false, { $0.headers = [] }),
        ("their order", false, { $0.headers.reverse() }),
        ("a letter of a header", false, { $0.headers[0].text.removeLast() }),
    ]

    /// It is proved each time that evidence comes back: of a packer that loses something nothing is kept packed.
    @Test(arguments: losses.indices)
    func packer_thatLosesSomething_packsNothing(index: Int) throws {
        let loss = Self.losses[index]
        let inner = Self.jws("{}", header: "aaaa")
        let signed = Self.jws(#"{"signedTransactionInfo":"\#(inner)"}"#)
        let answer = #"{"signedA":"\#(inner)","signedB":"\#(Self.jws("{}"))"}"#

        let packer = PayloadPacker(fault: loss.lose)

        #expect((packer.pack(signed) != nil) == loss.isNone, "\(loss.name)")
        #expect((packer.pack(answer: answer) != nil) == loss.isNone, "\(loss.name)")
    }

    @Test func text_ofDamagedBytes_isRefusedOrDiffers() throws {
        let signed = try Fixture.sign(Fixture.notification(Fixture.data()))
        let packed = try #require(PayloadPacker().pack(signed))
        let headers = packed.headers.map(\.text)
        let bytes = packed.bytes

        #expect(throws: PackedPayload.Damage.self) {
            try PackedPayload(bytes: bytes, headers: []).text()
        }
        for cut in stride(from: 0, to: bytes.count, by: 37) {
            #expect(throws: PackedPayload.Damage.self) {
                try PackedPayload(bytes: Array(bytes.prefix(cut)), headers: headers).text()
            }
        }
        for place in stride(from: 0, to: bytes.count, by: 11) {
            var changed = bytes
            changed[place] ^= 0x55
            let text = try? PackedPayload(bytes: changed, headers: headers).text()
            #expect(text != signed)
        }
        #expect(throws: PackedPayload.Damage.self) {
            try PackedPayload(bytes: bytes + [0], headers: headers).text()
        }
    }

    // MARK: Answers

    private static let answer =
        #"{"signedRenewalInfo":"\#(jws("{\"a\":1}"))", "signedTransactionInfo":"\#(jws("{}"))"}"#

    /// What holds nothing signed is kept whole.
    @Test(arguments: [
        (answer, true), (#"{"signedA":"e30.e30.e30"}"#, true), ("", false), ("{}", false),
        (#"{"errorCode":4000205,"errorMessage":"no"}"#, false), ("<html>", false),
        (#"{"signedA":"e30.e31.e30"}"#, false), (#"{"other":"e30.e30.e30"}"#, false),
        (#"{"signedA":"e30.e30.e30"} é trailing"#, true),
    ])
    func pack_ofAnAnswer_comesBackToTheByte(_ text: String, _ isPacked: Bool) throws {
        let packed = PayloadPacker().pack(answer: text)

        #expect((packed != nil) == isPacked)
        if let packed { #expect(try Self.unpacked(packed) == text) }
    }

    @Test func text_ofADamagedAnswer_isRefusedOrDiffers() throws {
        let packed = try #require(PayloadPacker().pack(answer: Self.answer))
        let headers = packed.headers.map(\.text)

        #expect(throws: PackedPayload.Damage.self) {
            try PackedPayload(bytes: packed.bytes, headers: []).text()
        }
        for cut in 0..<packed.bytes.count {
            #expect(throws: PackedPayload.Damage.self) {
                try PackedPayload(bytes: Array(packed.bytes.prefix(cut)), headers: headers).text()
            }
        }
        for place in packed.bytes.indices {
            var changed = packed.bytes
            changed[place] ^= 0x55
            let text = try? PackedPayload(bytes: changed, headers: headers).text()
            #expect(text != Self.answer)
        }
    }

    /// Shapes that decode, and shapes that do not.
    static let shapes: [@Sendable () throws -> JSON] = [
        { try Fixture.notification(Fixture.data()) },
        { try Fixture.notification(Fixture.data(renewal: nil)) },
        { try Fixture.notification(Fixture.data(transaction: nil)) },
        { try Fixture.notification(Fixture.data(["signedRenewalInfo": "#0"])) },
        { try Fixture.notification(Fixture.data(["signedRenewalInfo": "a.b.c.d"])) },
        { try Fixture.notification(Fixture.data(["signedRenewalInfo": 7])) },
        { try Fixture.notification(Fixture.data(["bundleVersion": "#0 \"é\u{1}"])) },
        { try Fixture.notification(Fixture.data(), ["notificationUUID": ""]) },
        { try Fixture.notification(Fixture.data(), ["notificationUUID": NSNull()]) },
        { Fixture.notification(nil) },
        { [:] },
    ]

    @Test(arguments: shapes.indices)
    func decode_ofAPackedNotification_saysTheSameAsItsText(_ shape: Int) throws {
        let signed = try Fixture.sign(Self.shapes[shape]())
        let packed = try #require(PayloadPacker().pack(signed))
        let receivedAt = Instant(milliseconds: signingTime + 5)

        // Without its headers no text can be had.
        let bare = PackedPayload(bytes: packed.bytes, headers: [])
        let whole = PackedPayload(bytes: packed.bytes, headers: packed.headers.map(\.text))
        let decoded = try NotificationVerifier.decode(
            packed: shape == 0 ? bare : whole, receivedAt: receivedAt)

        #expect(
            decoded
                == NotificationVerifier.decode(signedPayload: signed, receivedAt: receivedAt))
    }

    /// Thousands of payloads of all shapes, some cut or changed anywhere.
    @Test func pack_ofGeneratedPayloads_alwaysComesBack() throws {
        var random = SeededGenerator(seed: 20_260_105)
        let packer = PayloadPacker()
        var count = 0
        for _ in 0..<4000 {
            let text = GeneratedPayload.make(&random)
            guard let packed = packer.pack(text) else { continue }
            count += 1
            let back = try Self.unpacked(packed)
            #expect(back.utf8.elementsEqual(text.utf8), "\(text)")
        }
        #expect(count > 2000)
    }

    private func hex(_ byte: UInt8) -> String {
        (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }
}

/// Deterministic, so that a failure comes again.
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = (state ^ (state >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

private enum GeneratedPayload {
    static func make(_ random: inout SeededGenerator) -> String {
        var text = jws(payload(&random, depth: 0), &random)
        switch Int.random(in: 0..<6, using: &random) {
        case 0: text.removeLast(min(text.count, Int.random(in: 1..<9, using: &random)))
        case 1:
            var bytes = Array(text.utf8)
            let place = Int.random(in: 0..<bytes.count, using: &random)
            bytes[place] = UInt8.random(in: 0x20..<0x7F, using: &random)
            text = String(decoding: bytes, as: UTF8.self)
        default: break
        }
        return text
    }

    private static func payload(_ random: inout SeededGenerator, depth: Int) -> [UInt8] {
        var text = Array("{".utf8)
        for _ in 0..<Int.random(in: 0..<8, using: &random) {
            let names = ["signedTransactionInfo", "signedRenewalInfo", "sku", "signed", "é\\\"x"]
            text += "\"\(names[Int.random(in: 0..<names.count, using: &random)])\"".utf8
            text += [":", " : ", ":\n", ""][Int.random(in: 0..<4, using: &random)].utf8
            switch Int.random(in: 0..<4, using: &random) {
            case 0 where depth < 2:
                text += "\"\(jws(payload(&random, depth: depth + 1), &random))\"".utf8
            case 1: text += "\"a.b.c\"".utf8
            case 2:
                let count = Int.random(in: 0..<200, using: &random)
                text += (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            default: text += "12.5".utf8
            }
            text += ",".utf8
        }
        return text + "}".utf8
    }

    private static func jws(_ payload: [UInt8], _ random: inout SeededGenerator) -> String {
        let headers = ["eyJhbGciOiJFUzI1NiJ9", "e30", "bm90IEpTT04", "x"]
        let header = headers[Int.random(in: 0..<headers.count, using: &random)]
        let count = [64, 64, 64, 0, 71][Int.random(in: 0..<5, using: &random)]
        let signature = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
        return "\(header).\(Base64URL.encode(payload)).\(Base64URL.encode(signature))"
    }
}
