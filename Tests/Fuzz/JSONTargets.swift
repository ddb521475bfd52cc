import Foundation
import Pricing

@testable import AppStore
@testable import JSON

/// JSON by the grammar of RFC 8259, one rule a function.
struct SlowJSON {
    private struct No: Error {}

    private var rest: [Unicode.Scalar]

    static func isJSON(_ bytes: [UInt8]) -> Bool {
        guard let text = String(validating: bytes, as: UTF8.self) else { return false }
        var reader = SlowJSON(rest: text.unicodeScalars.reversed())
        return (try? reader.document()) != nil
    }

    private mutating func document() throws {
        try value()
        blanks()
        if !rest.isEmpty { throw No() }
    }

    private mutating func blanks() {
        while let next = rest.last, " \t\r\n".unicodeScalars.contains(next) { rest.removeLast() }
    }

    /// Takes the next character if it is one of these.
    private mutating func take(_ set: String) -> Bool {
        guard let next = rest.last, set.unicodeScalars.contains(next) else { return false }
        rest.removeLast()
        return true
    }

    private mutating func need(_ set: String) throws {
        if !take(set) { throw No() }
    }

    private mutating func value() throws {
        blanks()
        if take("{") {
            try list("}") { reader in
                reader.blanks()
                try reader.need("\"")
                try reader.text()
                reader.blanks()
                try reader.need(":")
                try reader.value()
            }
        } else if take("[") {
            try list("]") { reader in try reader.value() }
        } else if take("\"") {
            try text()
        } else if take("t") {
            for letter in ["r", "u", "e"] { try need(letter) }
        } else if take("f") {
            for letter in ["a", "l", "s", "e"] { try need(letter) }
        } else if take("n") {
            for letter in ["u", "l", "l"] { try need(letter) }
        } else {
            try number()
        }
    }

    private mutating func list(
        _ end: String, _ element: (inout SlowJSON) throws -> Void
    ) throws {
        blanks()
        if take(end) { return }
        while true {
            try element(&self)
            blanks()
            if take(end) { return }
            try need(",")
        }
    }

    private mutating func text() throws {
        while !take("\"") {
            if take("\\") {
                if take("u") {
                    for _ in 0..<4 { try need("0123456789abcdefABCDEF") }
                } else {
                    try need("\"\\/bfnrt")
                }
            } else {
                guard let next = rest.popLast(), next.value >= 0x20 else { throw No() }
            }
        }
    }

    private mutating func number() throws {
        _ = take("-")
        if !take("0") { try digits() }
        if take(".") { try digits() }
        if take("eE") {
            _ = take("+-")
            try digits()
        }
    }

    private mutating func digits() throws {
        try need("0123456789")
        while take("0123456789") {}
    }
}

enum JSONTarget: FuzzTarget {
    static let name = "json"
    static let seeds = [
        "{}", "[]", "null", "0", #""a""#, " [1, -2.5e3 , true,false,null] ",
        #"{"a":{"b":[{"c":"\u00e4\ud83d\ude00\n"}]},"a":2}"#,
        "9223372036854775807", "-9223372036854775808", "1e2", "100E-2", "0.1", "-0",
        #"["\ud800"]"#, #"{"":"","\"":"\\"}"#,
    ].map { [UInt8]($0) }
    static let words = [
        "{", "}", "[", "]", ":", ",", "\"", "true", "false", "null", "\\u0000", "\\ud83d\\ude00",
        "\\ud800", "\\\"", "\\\\", "\\/", "\\b", "1e400", "-0", "0.", "1E+", "9223372036854775808",
        "\u{FEFF}", "é", "\t", "\r\n",
    ]

    static func check(_ input: [UInt8]) {
        let mine: JSONDocument?
        do throws(JSONFault) {
            mine = try JSONDocument(input)
        } catch {
            switch error.code {
            case .tooLarge, .tooDeep, .tooMany: return
            case .cutShort, .unexpectedByte, .badNumber, .badEscape, .badUTF8: mine = nil
            }
        }
        require(
            (mine != nil) == SlowJSON.isJSON(input), "the slow reader disagrees about what JSON is")
        // Foundation takes more: a comma before a closing bracket, other encodings. And it drops a
        // U+FEFF that follows an escape. So it only judges values, and those without one.
        guard let mine, !contains(input, [0xEF, 0xBB, 0xBF]) else { return }
        let theirs = try? JSONSerialization.jsonObject(
            with: Data(input), options: [.fragmentsAllowed])
        guard let theirs else {
            require(Self.isException(mine.root), "Foundation refuses what we read")
            return
        }
        compare(mine.root, theirs)
    }

    /// What Foundation cannot hold: a lone surrogate, and a number that no Double holds.
    private static func isException(_ node: JSONNode) -> Bool {
        switch node.kind {
        case .null, .boolean: return false
        case .text: return node.text == nil
        case .number:
            guard let value = Double(node.raw) else { return true }
            // Beyond the range of Double in either direction.
            return !value.isFinite || node.raw.count > 17 || abs(value) < 1e-300
        case .array: return node.elements?.contains(where: isException) ?? false
        case .object:
            var found = false
            node.forEachMember { name, value in
                if isException(name) || isException(value) { found = true }
            }
            return found
        }
    }

    private static func compare(_ mine: JSONNode, _ theirs: Any) {
        switch mine.kind {
        case .null: require(theirs is NSNull && mine.isNull, "null differs")
        case .boolean: require(theirs as? Bool == mine.boolean, "a boolean differs")
        case .text: require(theirs as? String == mine.text, "a text differs")
        case .number: compareNumber(mine, theirs)
        case .array:
            let (left, right) = (mine.elements ?? [], theirs as? [Any] ?? [])
            require(left.count == right.count, "an array has another length")
            for (left, right) in zip(left, right) { compare(left, right) }
        case .object:
            guard let right = theirs as? [String: Any] else { violated("an object differs") }
            var left: [String: JSONNode] = [:]
            var hasOdd = false
            var hasTwice = false
            mine.forEachMember { name, value in
                guard let text = name.text else {
                    hasOdd = true
                    return
                }
                if left.updateValue(value, forKey: text) != nil { hasTwice = true }
            }
            if hasOdd { return }
            require(left.count == right.count, "an object has other names")
            // Which of two equal names Foundation takes is not promised.
            if hasTwice { return }
            for (name, value) in left {
                guard let other = right[name] else { violated("a name is missing") }
                compare(value, other)
            }
        }
    }

    private static func compareNumber(_ mine: JSONNode, _ theirs: Any) {
        guard let number = theirs as? NSNumber else { violated("a number is none") }
        if let whole = Int64(mine.raw) {
            require(mine.int64 == whole && mine.int64RoundedDown == whole, "a whole number differs")
            require(number.int64Value == whole, "Foundation's whole number differs")
            return
        }
        let value = number.doubleValue
        guard value.isFinite else { return }
        let isSmall = abs(value) < 1e15
        if let exact = mine.int64 {
            require(abs(Double(exact) - value) <= abs(value) * 1e-9, "a number differs")
        }
        if let down = mine.int64RoundedDown {
            require(
                Double(down) <= value + abs(value) * 1e-9
                    && Double(down) >= value - 1 - abs(value) * 1e-9, "a rounded number differs")
        } else {
            require(!isSmall, "a small number has no whole part")
        }
    }
}

/// A notification as three lines: its payload and those of its transaction and its renewal.
enum NotificationTarget: FuzzTarget {
    static let name = "notification"
    static let words =
        JSONTarget.words + [
            "notificationType", "subtype", "data", "summary", "signedDate", "notificationUUID",
            "originalTransactionId", "productId", "price", "currency", "advancedCommerceInfo",
            "items", "SKU", "offer", "priceIncreaseInfo", "dependentSKUs", "status", "period",
            "expiresDate", "renewalDate", "autoRenewStatus", "revocationDate", "type",
        ]
    static let seeds = [
        """
        {"notificationType":"PRICE_CHANGE","subtype":"PENDING","notificationUUID":"u","version":"2.0",\
        "signedDate":1767225600000,"data":{"appAppleId":1,"bundleId":"b","environment":"Sandbox","status":1}}
        {"transactionId":"1","originalTransactionId":"1","productId":"p","type":"Auto-Renewable Subscription",\
        "price":9990,"currency":"USD","storefront":"USA","purchaseDate":1767225600000.5,"expiresDate":null,\
        "advancedCommerceInfo":{"period":"P1M","items":[{"SKU":"a","price":1,"offer":{"price":0,"period":"P1W",\
        "periodCount":2,"reason":"R"},"revocationDate":1}]}}
        {"originalTransactionId":"1","productId":"p","autoRenewStatus":1,"renewalDate":1769904000000,\
        "isInBillingRetryPeriod":false,"advancedCommerceInfo":{"consistencyToken":"t","period":"P1M","items":\
        [{"SKU":"a","price":1,"priceIncreaseInfo":{"status":"PENDING","price":2,"dependentSKUs":["b"]}}]}}
        """,
        #"{"notificationType":"TEST"}"#, "[]\n{}\n{}",
    ].map { [UInt8]($0) }

    static func check(_ input: [UInt8]) {
        let lines = split(input, "\n")
        func nested(_ index: Int) -> NotificationParts.Nested {
            lines.indices.contains(index)
                ? NotificationParts.Nested(JSONDocument.read(lines[index])) : .absent
        }
        let received = Instant(milliseconds: 1_767_225_600_000)
        let parts = NotificationParts(
            payload: lines[0],
            wire: JSONDocument.read(lines[0]).flatMap(WireNotification.init),
            transaction: nested(1), renewal: nested(2))
        let notification = parts.notification(receivedAt: received)
        require(!notification.notificationUUID.isEmpty, "a notification without an id")
        let texts = [
            notification.notificationUUID, notification.type, notification.subtype,
            notification.originalTransactionID, notification.event?.transaction?.productID,
            notification.event?.renewal?.productID,
        ]
        require(
            !texts.contains { $0?.utf8.contains(0) == true }, "a text that cannot be stored")
        if let event = notification.event {
            require(event.key.signedAt == notification.signedAt, "an event of another time")
        }
    }
}

/// Packing what was signed, and reading packed bytes that were damaged.
enum EvidenceTarget: FuzzTarget {
    static let name = "evidence"
    static let words = [
        "e30", ".", "\"signedTransactionInfo\":\"", "\"signed\":", "\"", "e30.e30.AAAA",
    ]
    static let seeds =
        [
            #"{"data":{"signedTransactionInfo":"e30.e30.AAAA","signedRenewalInfo":"e31.e30.AAAA"}}"#,
            "e30.e30.AAAA", "{}",
        ].map { [UInt8]($0) } + [[1, 0, 1, 1, 0x7B, 0, 1, 0x7D, 1, 9, 1, 0x7D, 2, 7, 7]]

    private static let packer = PayloadPacker()

    static func check(_ input: [UInt8]) {
        let whole = String(decoding: input, as: UTF8.self)
        if let packed = packer.pack(whole) { prove(packed, whole) }
        let wrapped = "e30.\(SlowBase64URL.encode(input)).AAAA"
        guard let packed = packer.pack(wrapped) else {
            violated("a sound JWS was not packed")
        }
        prove(packed, wrapped)
        let damaged = PackedPayload(bytes: input, headers: [[UInt8]("e30"), [UInt8]("e31")])
        // Damage is an answer; here it only must not end the process.
        _ = (try? damaged.text(), try? damaged.contents())
    }

    private static func prove(_ packed: PayloadPacker.Packed, _ text: String) {
        let payload = PackedPayload(packed)
        // A failure reads as nil and differs from the text.
        require((try? payload.text()) == text, "packed evidence does not come back")
        require((try? payload.contents()) != nil, "packed evidence has no contents")
    }
}

extension SlowBase64URL {
    static func encode(_ bytes: [UInt8]) -> String {
        Data(bytes).base64EncodedString()
            .replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
            .replacingOccurrences(of: "=", with: "")
    }
}
