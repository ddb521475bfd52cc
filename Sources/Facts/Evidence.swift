/// A stored `signedPayload`, which can be rebuilt to the byte.
package enum Evidence: Hashable, Sendable {
    /// The text itself. It is kept whole where its shape is odd, because packing would not give it back to the byte.
    case whole(String)
    /// The text without its headers, which are stored once for all payloads. Only the packer can read the bytes; they
    /// name each header by its index in `headers`.
    case packed([UInt8], headers: [SigningHeader])
}

extension Evidence {
    /// The values of the database columns. Either `whole` or `packed` has a value, and `headerDigests` belongs to
    /// `packed`.
    package var whole: String? { if case .whole(let text) = self { text } else { nil } }

    package var packed: [UInt8]? { if case .packed(let bytes, _) = self { bytes } else { nil } }

    package var headers: [SigningHeader] {
        if case .packed(_, let headers) = self { headers } else { [] }
    }

    package var headerDigests: [UInt8]? {
        if case .packed(_, let headers) = self { headers.flatMap(\.digest) } else { nil }
    }
}

/// The header that all payloads of one signing chain share.
package struct SigningHeader: Hashable, Sendable {
    package static let digestBytes = 32

    /// SHA-256 of `text`.
    package var digest: [UInt8]
    package var text: [UInt8]

    package init(digest: [UInt8], text: [UInt8]) {
        self.digest = digest
        self.text = text
    }

    /// Hashes the digest alone, in one piece. Equal headers have equal digests, and Swift would hash both arrays byte by byte.
    package func hash(into hasher: inout Hasher) {
        digest.withUnsafeBytes { hasher.combine(bytes: $0) }
    }
}
