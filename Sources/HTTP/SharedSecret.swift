import Foundation
import Synchronization

/// A secret that both sides know, read from a file. It can be replaced while it is in use.
package final class SharedSecret: Sendable {
    private let bytes: Mutex<[UInt8]>

    /// Blanks and line ends around the secret do not count; nil when nothing is left.
    package init?(fileContent: String) {
        guard let kept = Self.kept(of: fileContent) else { return nil }
        bytes = Mutex(kept)
    }

    /// Replaces the secret from now on. Returns whether it differs from the one before. Where the text is blank, the
    /// one before stays.
    package func replace(fileContent: String) -> Bool {
        guard let kept = Self.kept(of: fileContent) else { return false }
        return bytes.withLock { bytes in
            let isOther = bytes != kept
            bytes = kept
            return isOther
        }
    }

    package var current: [UInt8] { bytes.withLock { $0 } }

    /// Whether an `Authorization` field carries it as bearer token.
    package func isBearer(in authorization: String?) -> Bool {
        guard let token = Self.credentials(of: "bearer ", in: authorization) else { return false }
        return isEqual(to: Array(token))
    }

    /// Whether an `Authorization` field carries it as the password of HTTP Basic (RFC 7617), with any user name.
    package func isBasicPassword(in authorization: String?) -> Bool {
        // The decoding is strict: padding is required, and foreign characters are refused.
        guard let encoded = Self.credentials(of: "basic ", in: authorization),
            let pair = Data(base64Encoded: Data(encoded)),
            let colon = pair.firstIndex(of: UInt8(ascii: ":"))
        else { return false }
        return isEqual(to: Array(pair[pair.index(after: colon)...]))
    }

    /// Compares the secret in constant time, so that the time does not reveal how much of it is right.
    package func isEqual(to given: [UInt8]) -> Bool {
        let bytes = current
        var difference: UInt8 = given.count == bytes.count ? 0 : 1
        for (index, byte) in bytes.enumerated() {
            difference |= byte ^ (index < given.count ? given[index] : 0)
        }
        return difference == 0
    }

    /// The credentials after the scheme, which may be written in any case.
    private static func credentials(
        of scheme: String, in authorization: String?
    ) -> Substring.UTF8View? {
        guard let authorization, authorization.prefix(scheme.count).lowercased() == scheme else {
            return nil
        }
        return authorization.dropFirst(scheme.count).utf8
    }

    private static func kept(of fileContent: String) -> [UInt8]? {
        let isBlank = { (byte: UInt8) in byte == 0x20 || (0x09...0x0D).contains(byte) }
        let kept = Array(
            fileContent.utf8.drop(while: isBlank).reversed().drop(while: isBlank).reversed())
        return kept.isEmpty ? nil : kept
    }
}
