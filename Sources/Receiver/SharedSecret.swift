/// A secret that both sides know, from a file.
package struct SharedSecret: Sendable {
    private let bytes: [UInt8]

    /// Blanks and line ends around the secret do not count; nil when nothing is left.
    package init?(fileContent: String) {
        let isBlank = { (byte: UInt8) in byte == 0x20 || (0x09...0x0D).contains(byte) }
        let kept = Array(
            fileContent.utf8.drop(while: isBlank).reversed().drop(while: isBlank).reversed())
        guard !kept.isEmpty else { return nil }
        bytes = kept
    }

    /// The time does not tell how much of it is right.
    func isEqual(to given: [UInt8]) -> Bool {
        var difference: UInt8 = given.count == bytes.count ? 0 : 1
        for (index, byte) in bytes.enumerated() {
            difference |= byte ^ (index < given.count ? given[index] : 0)
        }
        return difference == 0
    }
}
