/// The bearer token that the forwarder of notifications must present.
package struct ForwarderToken: Sendable {
    private let bytes: [UInt8]

    /// Blanks and line ends around the token do not count; nil when nothing is left.
    package init?(fileContent: String) {
        let isBlank = { (byte: UInt8) in byte == 0x20 || (0x09...0x0D).contains(byte) }
        let kept = Array(
            fileContent.utf8.drop(while: isBlank).reversed().drop(while: isBlank).reversed())
        guard !kept.isEmpty else { return nil }
        bytes = kept
    }

    /// Whether an `Authorization` field carries the token. The time does not tell how much of it is
    /// right.
    func accepts(_ authorization: String?) -> Bool {
        let scheme = "bearer "
        guard let authorization, authorization.prefix(scheme.count).lowercased() == scheme else {
            return false
        }
        let given = Array(authorization.utf8.dropFirst(scheme.utf8.count))
        var difference: UInt8 = given.count == bytes.count ? 0 : 1
        for (index, byte) in bytes.enumerated() {
            difference |= byte ^ (index < given.count ? given[index] : 0)
        }
        return difference == 0
    }
}
