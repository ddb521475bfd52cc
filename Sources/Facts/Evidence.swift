/// A `signedPayload` as it is kept, to the byte.
package enum Evidence: Hashable, Sendable {
    /// The text itself, where its shape is odd: it would not come back to the byte from what is packed.
    case whole(String)
    /// Without its headers, which are kept once for all payloads. What the bytes mean is the
    /// packer's business; they name each header by its place in `headers`.
    case packed([UInt8], headers: [SigningHeader])
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
}
