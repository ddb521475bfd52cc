import ServiceKit

/// libpq's connection strings: how to show one without secrets, and how to make one.
enum ConnectionString {
    private static let secretKeys = ["password", "sslpassword", "scram_client_key"]
    private static let mask = "********"

    /// Whether a setting holds a password of the database.
    static func isSecret(_ key: String, _ value: String) -> Bool {
        switch key {
        case "PGPASSWORD": !value.isEmpty
        case Variable.databaseURL.rawValue: withoutPassword(value).contains(mask)
        default: false
        }
    }

    /// The connection string with each password replaced. A text that cannot be parsed is not shown at all.
    static func withoutPassword(_ text: String) -> String {
        if text.hasPrefix("postgres://") || text.hasPrefix("postgresql://") {
            return withoutPasswordInURI(text)
        }
        return withoutPasswordInPairs(text)
    }

    /// The address of another program with its password and the values of its parameters replaced, because a receiver
    /// of webhooks may authenticate callers by a parameter. Any other text is returned as it is.
    static func withoutSecretsInAddress(_ text: String) -> String {
        withoutPasswordInURI(text) { _ in true }
    }

    /// `SCHEME://USER:PASSWORD@HOST…` with the password replaced, and any other text as it is.
    private static func withoutPasswordInURI(
        _ text: String,
        isSecret: (String) -> Bool = { secretKeys.contains($0.lowercased()) }
    ) -> String {
        guard let colon = text.firstIndex(of: ":"), text[colon...].hasPrefix("://") else {
            return text
        }
        let scheme = text.prefix { $0 != ":" } + "://"
        var rest = text.dropFirst(scheme.count)
        var query = ""
        if let mark = rest.firstIndex(of: "?") {
            query = "?" + masked(rest[rest.index(after: mark)...], isSecret)
            rest = rest[..<mark]
        }
        // The last @ ends the user part, so that an unescaped @ in a password does not reveal the rest of it.
        guard let at = rest.lastIndex(of: "@") else { return scheme + rest + query }
        let user = rest[..<at]
        let name = user.firstIndex(of: ":").map { user[..<$0] + ":\(mask)" } ?? user
        return scheme + name + rest[at...] + query
    }

    private static func masked(_ parameters: Substring, _ isSecret: (String) -> Bool) -> String {
        parameters.split(separator: "&", omittingEmptySubsequences: false).map { pair in
            let key = pair.prefix { $0 != "=" }
            guard isSecret(String(key)) else { return String(pair) }
            // A parameter without a name may be a secret itself.
            return key.endIndex == pair.endIndex ? mask : "\(key)=\(mask)"
        }.joined(separator: "&")
    }

    /// `key = 'value'` pairs, in libpq's own grammar: blanks around `=`, quotes, backslashes.
    private static func withoutPasswordInPairs(_ text: String) -> String {
        var rest = text[...]
        var shown: [String] = []
        while true {
            rest = rest.drop(while: \.isWhitespace)
            if rest.isEmpty { return shown.joined(separator: " ") }
            let key = String(rest.prefix { $0 != "=" && !$0.isWhitespace })
            rest = rest.dropFirst(key.count).drop(while: \.isWhitespace)
            guard rest.first == "=", !key.isEmpty else { return mask }
            rest = rest.dropFirst().drop(while: \.isWhitespace)
            let value = takeValue(&rest)
            shown.append(
                "\(key)=\(secretKeys.contains(key.lowercased()) ? mask : value)")
        }
    }

    /// Takes one value as it is written, quotes and backslashes included.
    private static func takeValue(_ rest: inout Substring) -> String {
        var value = ""
        let isQuoted = rest.first == "'"
        if isQuoted { value.append(rest.removeFirst()) }
        while let character = rest.first {
            if !isQuoted && character.isWhitespace { return value }
            value.append(rest.removeFirst())
            if character == "\\" {
                if let escaped = rest.popFirst() { value.append(escaped) }
            } else if isQuoted && character == "'" {
                return value
            }
        }
        return value
    }

    /// The `PG*` settings as a connection string: libpq reads the process environment, but an environment
    /// file may name them too.
    static func fromLibpqVariables(_ settings: Settings) -> String {
        libpqVariables.compactMap { variable, keyword in
            guard let (value, _) = settings.value(variable), !value.isEmpty else { return nil }
            let escaped = value.flatMap { "\\'".contains($0) ? "\\\($0)" : "\($0)" }
            return "\(keyword)='\(String(escaped))'"
        }.joined(separator: " ")
    }

    private static let libpqVariables: [(String, String)] = [
        ("PGSERVICE", "service"), ("PGHOST", "host"), ("PGHOSTADDR", "hostaddr"),
        ("PGPORT", "port"), ("PGDATABASE", "dbname"), ("PGUSER", "user"),
        ("PGPASSWORD", "password"), ("PGPASSFILE", "passfile"), ("PGOPTIONS", "options"),
        ("PGSSLMODE", "sslmode"), ("PGSSLCERT", "sslcert"), ("PGSSLKEY", "sslkey"),
        ("PGSSLROOTCERT", "sslrootcert"), ("PGGSSENCMODE", "gssencmode"),
        ("PGCHANNELBINDING", "channel_binding"), ("PGCONNECT_TIMEOUT", "connect_timeout"),
        ("PGTARGETSESSIONATTRS", "target_session_attrs"),
    ]
}
