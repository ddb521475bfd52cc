import Testing

@testable import HTTP

@Suite struct PeerAddressTests {
    @Test(arguments: [
        ("*", "203.0.113.9", true), ("10.0.0.0/8", "10.255.0.1", true),
        ("10.0.0.0/8", "11.0.0.1", false), ("10.1.2.3/8", "10.9.9.9", true),
        ("192.0.2.7", "192.0.2.7", true), ("192.0.2.7", "192.0.2.8", false),
        ("0.0.0.0/0", "192.0.2.8", true), ("0.0.0.0/0", "fd00::1", false),
        ("fd00::/8", "fdff::1", true), ("fd00::/8", "fe80::1", false),
        ("::/0", "fe80::1", true), ("::1", "::1", true),
        // A socket of IPv6 tells IPv4 peers so.
        ("10.0.0.0/8", "::ffff:10.0.0.1", true),
    ])
    func range_containsItsAddresses(_ range: String, _ address: String, _ isIn: Bool) throws {
        let range = try #require(AddressRange(range))
        let address = try #require(PeerAddress(address))

        #expect(range.contains(address) == isIn)
    }

    @Test(arguments: [
        "", "/", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "fd00::/129", "localhost", "10.0.0/8",
        "10.0.0.0/8/8", "**", "10.0.0.0/+",
    ])
    func range_ofAnythingElse_isNone(_ text: String) {
        #expect(AddressRange(text) == nil)
    }

    @Test(arguments: [
        ("192.0.2.1", "192.0.2.1"), ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
    ])
    func holder_isAnAddressOfIPv4OrANetworkOfIPv6(_ address: String, _ holder: String) throws {
        #expect(try #require(PeerAddress(address)).holder.text == holder)
    }
}
