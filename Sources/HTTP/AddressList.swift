import Glibc

/// The addresses of a host, in the order in which to try them.
package struct AddressList {
    struct Address {
        let family: Int32
        let bytes: [UInt8]

        /// Opens a stream socket of this family. The result is negative with `errno` on failure.
        func openSocket() -> Int32 {
            socket(family, Int32(SOCK_STREAM.rawValue), 0)
        }

        func bind(_ descriptor: Int32) -> Int32 {
            withPointer { Glibc.bind(descriptor, $0, $1) }
        }

        func connect(_ descriptor: Int32) -> Int32 {
            withPointer { Glibc.connect(descriptor, $0, $1) }
        }

        private func withPointer(
            _ body: (UnsafePointer<sockaddr>?, socklen_t) -> Int32
        ) -> Int32 {
            bytes.withUnsafeBytes { buffer in
                body(
                    buffer.baseAddress?.assumingMemoryBound(to: sockaddr.self),
                    socklen_t(buffer.count))
            }
        }
    }

    let entries: [Address]
    /// Why there are no addresses.
    let failure: String?

    /// Resolves the host. This blocks as long as the system's resolver does.
    init(host: String, port: Int, isPassive: Bool) {
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_NUMERICSERV | (isPassive ? AI_PASSIVE : 0)
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host.isEmpty ? nil : host, String(port), &hints, &list)
        defer { if let list { freeaddrinfo(list) } }
        var found: [Address] = []
        var node = code == 0 ? list : nil
        while let current = node {
            let entry = current.pointee
            if let address = entry.ai_addr {
                let raw = UnsafeRawBufferPointer(start: address, count: Int(entry.ai_addrlen))
                found.append(Address(family: entry.ai_family, bytes: Array(raw)))
            }
            node = entry.ai_next
        }
        entries = found
        failure = code == 0 ? nil : String(cString: gai_strerror(code))
    }

    /// Whether the text is an IPv4 or IPv6 address and not a name.
    static func isNumeric(_ host: String) -> Bool {
        var storage = in6_addr()
        return inet_pton(AF_INET, host, &storage) == 1 || inet_pton(AF_INET6, host, &storage) == 1
    }

    /// Whether the host can only be this machine.
    package static func isLoopback(_ host: String) -> Bool {
        host.lowercased() == "localhost" || host == "::1"
            || (isNumeric(host) && host.hasPrefix("127."))
    }
}
