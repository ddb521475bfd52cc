import ServiceKit

/// A request with its whole body.
package struct HTTPRequest: Sendable {
    package var method: String
    /// The path with its query, as on the wire: `/batches/1?full=1`.
    package var target: String
    package var headers: HTTPHeaders
    package var body: [UInt8]

    package init(
        method: String, target: String, headers: HTTPHeaders = HTTPHeaders(), body: [UInt8] = []
    ) {
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body
    }

    /// The target without its query, percent signs untouched.
    package var path: String {
        String(target.prefix { $0 != "?" })
    }

    /// The decoded parts of the path between slashes, empty ones left out.
    package var pathSegments: [String] {
        path.split(separator: "/").map { PercentCoding.decode($0.utf8, plusIsSpace: false) }
    }

    /// The decoded query: each name with its values in order; a name without `=` has an empty one.
    package var query: [String: [String]] {
        guard let mark = target.firstIndex(of: "?") else { return [:] }
        return target[mark...].dropFirst().split(separator: "&").reduce(into: [:]) { fields, pair in
            let parts = pair.split(
                separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = parts.first else { return }
            let value = parts.dropFirst().first ?? ""
            let key = PercentCoding.decode(name.utf8, plusIsSpace: true)
            fields[key, default: []].append(PercentCoding.decode(value.utf8, plusIsSpace: true))
        }
    }
}

/// Percent encoding of RFC 3986.
package enum PercentCoding {
    /// Encodes everything but unreserved characters: fit for one path segment or query value.
    package static func encode(_ text: String) -> String {
        text.utf8.reduce(into: "") { encoded, byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E:
                encoded.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                encoded += byte < 16 ? "%0\(digits)" : "%\(digits)"
            }
        }
    }

    /// Decodes; a percent sign without two hexadecimal digits stays as it is.
    static func decode(_ text: Substring.UTF8View, plusIsSpace: Bool) -> String {
        var bytes: [UInt8] = []
        var rest = text
        while let byte = rest.popFirst() {
            if byte == 0x2B && plusIsSpace {
                bytes.append(0x20)
            } else if byte == 0x25, let high = rest.first.flatMap(Hex.value),
                let low = rest.dropFirst().first.flatMap(Hex.value)
            {
                bytes.append(high << 4 | low)
                rest = rest.dropFirst(2)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
