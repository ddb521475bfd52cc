/// `https://HOST[:PORT]/PATH[?QUERY]`, or `http://` on this machine.
struct WebhookURL: Equatable, Sendable {
    let base: String
    let target: String

    /// nil where the text is not such a URL.
    init?(_ text: String) {
        guard let scheme = text.range(of: "://") else { return nil }
        let rest = text[scheme.upperBound...]
        let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
        base = String(text[..<end])
        var path = String(rest[end...])
        if !path.hasPrefix("/") { path = "/" + path }
        target = path
        guard let url = BaseURL(base), url.isTLS || url.isLoopback,
            path.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != 0x23 })
        else { return nil }
    }
}
