import JOSE

/// The root certificate under which the App Store signs today. repricer names it and never fetches it.
enum AppleRoot {
    static let file = "AppleRootCA-G3.cer"
    /// The digest of the DER, as `sha256sum` prints it.
    static let sha256 = "63343abfb89a6a03ebb57e9b3f5fa7be7c4f5c756f3017b3a8c488c3653e9179"
    static let source = "https://www.apple.com/certificateauthority/"

    /// What to do where it is missing.
    static let remedy = "put \(file) from \(source) there (SHA-256 \(sha256))"

    /// What `config check` says of readable roots. A simulated App Store has other roots, which are equally valid.
    static func found(in roots: TrustedRoots, at path: String) -> String {
        let isThere = roots.holds(sha256: sha256)
        return
            "\(roots.count) in \(path), Apple's \(file) \(isThere ? "among them" : "not among them")"
    }
}
