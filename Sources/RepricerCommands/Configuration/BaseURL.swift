import HTTP

/// `https://host[:port]`, parsed as far as the settings need it.
struct BaseURL: Equatable {
    let isTLS: Bool
    let host: String

    /// nil for anything with a path, a user or an impossible port.
    init?(_ text: String) {
        let schemes = [("https://", true), ("http://", false)]
        guard let (scheme, isTLS) = schemes.first(where: { text.lowercased().hasPrefix($0.0) })
        else { return nil }
        var authority = text.dropFirst(scheme.count)
        if authority.hasSuffix("/") { authority = authority.dropLast() }
        guard !authority.isEmpty, !authority.contains(where: { "/@?# ".contains($0) }),
            let (host, port) = Self.split(String(authority)), !host.isEmpty
        else { return nil }
        if let port, !(1...65_535).contains(port) { return nil }
        self.isTLS = isTLS
        self.host = host
    }

    /// Whether the host can only be this machine.
    var isLoopback: Bool { AddressList.isLoopback(host) }

    /// `HOST:PORT` or `[IPV6]:PORT`; port 0 is allowed.
    static func address(_ text: String) -> Configuration.Address? {
        guard let (host, port) = split(text), let port, (0...65_535).contains(port), !host.isEmpty,
            !host.contains(where: { "/@ ".contains($0) })
        else { return nil }
        return Configuration.Address(host: host, port: port)
    }

    private static func split(_ text: String) -> (host: String, port: Int?)? {
        if text.hasPrefix("[") {
            guard let end = text.firstIndex(of: "]") else { return nil }
            let host = String(text[text.index(after: text.startIndex)..<end])
            let rest = text[text.index(after: end)...]
            if rest.isEmpty { return (host, nil) }
            guard rest.hasPrefix(":"), let port = Int(rest.dropFirst()) else { return nil }
            return (host, port)
        }
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard let host = parts.first, parts.count <= 2 else { return nil }
        guard let second = parts.dropFirst().first else { return (String(host), nil) }
        guard let port = Int(second) else { return nil }
        return (String(host), port)
    }
}
