import Glibc

/// The address of a connection's peer, as 128 bits; an IPv4 address is in `::ffff:0:0/96`.
package struct PeerAddress: Hashable, Sendable {
    private static let mappedIPv4 = UInt128(0xFFFF) << 32
    let bits: UInt128

    /// The peer of a connected socket; nil where it has no internet address, or is gone.
    init?(peerOf descriptor: Int32) {
        var storage = sockaddr_storage()
        var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let bits = withUnsafeMutablePointer(to: &storage) { pointer -> UInt128? in
            let raw = UnsafeMutableRawPointer(pointer)
            let address = raw.assumingMemoryBound(to: sockaddr.self)
            guard getpeername(descriptor, address, &size) == 0 else { return nil }
            return switch Int32(address.pointee.sa_family) {
            case AF_INET: Self.bits(raw.assumingMemoryBound(to: sockaddr_in.self).pointee.sin_addr)
            case AF_INET6:
                Self.bits(raw.assumingMemoryBound(to: sockaddr_in6.self).pointee.sin6_addr)
            default: nil
            }
        }
        guard let bits else { return nil }
        self.bits = bits
    }

    /// An address in digits, not a name.
    init?(_ text: some StringProtocol) {
        var (four, six) = (in_addr(), in6_addr())
        if inet_pton(AF_INET, String(text), &four) == 1 {
            bits = Self.bits(four)
        } else if inet_pton(AF_INET6, String(text), &six) == 1 {
            bits = Self.bits(six)
        } else {
            return nil
        }
    }

    private static func bits(_ address: in_addr) -> UInt128 {
        mappedIPv4 | UInt128(UInt32(bigEndian: address.s_addr))
    }

    private static func bits(_ address: in6_addr) -> UInt128 {
        withUnsafeBytes(of: address) { $0.reduce(0) { ($0 << 8) | UInt128($1) } }
    }

    var isIPv4: Bool { bits >> 32 == 0xFFFF }

    /// The holder of a share: an IPv4 address, or the IPv6 /64 that one customer is usually given.
    var holder: PeerAddress { isIPv4 ? self : PeerAddress(bits: (bits >> 64) << 64) }

    private init(bits: UInt128) { self.bits = bits }

    /// For the log.
    package var text: String {
        let bytes = (0..<16).map { UInt8(truncatingIfNeeded: bits >> (120 - 8 * UInt128($0))) }
        let (family, address) = isIPv4 ? (AF_INET, Array(bytes[12...])) : (AF_INET6, bytes)
        var buffer = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        // It fails only for a buffer that is too short, and then leaves it empty.
        inet_ntop(family, address, &buffer, socklen_t(buffer.count))
        return buffer.withUnsafeBytes { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }
}

/// A range of addresses: `10.0.0.0/8`, `fd00::/8`, one address, or `*` for all.
package struct AddressRange: Hashable, Sendable {
    package static let all = AddressRange(first: 0, mask: 0)
    private let first: UInt128
    private let mask: UInt128

    private init(first: UInt128, mask: UInt128) {
        self.first = first & mask
        self.mask = mask
    }

    /// nil where the text is none of these.
    package init?(_ text: String) {
        guard text != "*" else {
            self = .all
            return
        }
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let address = parts.first.flatMap({ PeerAddress($0) }) else { return nil }
        let most = address.isIPv4 ? 32 : 128
        var length = most
        if parts.count == 2 {
            guard let given = Int(parts[1]), (0...most).contains(given) else { return nil }
            length = given
        }
        // A shift by 128 gives 0: the mask of a range that holds every IPv6 address.
        self.init(first: address.bits, mask: ~UInt128(0) << UInt128(most - length))
    }

    package func contains(_ address: PeerAddress) -> Bool { address.bits & mask == first }
}
