/// The bearer token that the forwarder of notifications must present.
package struct ForwarderToken: Sendable {
    private let secret: SharedSecret

    /// The secret may be replaced while the token is in use.
    package init(_ secret: SharedSecret) {
        self.secret = secret
    }

    /// Blanks and line ends around the token do not count; nil when nothing is left.
    package init?(fileContent: String) {
        guard let secret = SharedSecret(fileContent: fileContent) else { return nil }
        self.init(secret)
    }

    /// Whether an `Authorization` field carries the token. The time does not tell how much of it is
    /// right.
    func accepts(_ authorization: String?) -> Bool {
        let scheme = "bearer "
        guard let authorization, authorization.prefix(scheme.count).lowercased() == scheme else {
            return false
        }
        return secret.isEqual(to: Array(authorization.utf8.dropFirst(scheme.utf8.count)))
    }
}
