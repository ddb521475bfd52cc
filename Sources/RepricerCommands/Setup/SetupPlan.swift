import JOSE
import ServiceKit

/// The answers to `init`: the app, the database, and its users.
struct SetupPlan: Sendable {
    /// The settings of the service, in the order of its file.
    var app: [(variable: Variable, value: String)]
    var database: DatabaseAddress
    var owner = ""
    var service = ""
    var analyst = ""
    var approver = ""
    var finance = ""
    /// The passwords by user.
    var passwords: [String: Password] = [:]

    /// The password of a database user. The user's settings file has it; the SQL has only its verifier.
    struct Password: Sendable {
        let text: String
        let verifier: String

        /// A random password of 144 bits, of letters that need no escape in a URI; nil where OpenSSL failed.
        static func random() -> Password? {
            var random = SystemRandomNumberGenerator()
            let bytes = { (count: Int) in
                (0..<count).map { _ in UInt8.random(in: .min ... .max, using: &random) }
            }
            let text = Base64URL.encode(bytes(18))
            return ScramVerifier.text(of: text, salt: bytes(16)).map {
                Password(text: text, verifier: $0)
            }
        }
    }

    /// A libpq URI without a user, which each file adds.
    struct DatabaseAddress: Sendable {
        let uri: String
        let name: String

        /// nil where it is no such URI, or names a user or a password already.
        init?(_ text: String) {
            guard text.hasPrefix("postgresql://") || text.hasPrefix("postgres://"),
                !text.contains("@"), !text.contains("user="), !text.contains("password="),
                !text.contains(where: { $0.isWhitespace || "'\"\\`$".contains($0) })
            else { return nil }
            let rest = text.drop { $0 != ":" }.dropFirst(3)
            let path = rest.prefix { $0 != "?" }.drop { $0 != "/" }.dropFirst()
            guard SetupPlan.isName(String(path)), !ReservedNames.holds(String(path)) else {
                return nil
            }
            uri = text
            name = String(path)
        }

        /// The command by which a superuser of the server runs an SQL file in one of its databases. On this machine
        /// that is the system account `postgres`, which may not read the file, so the shell reads it.
        func asSuperuser(_ file: String, in database: String) -> String {
            guard let start = uri.range(of: "://")?.upperBound,
                let slash = uri[start...].firstIndex(of: "/")
            else { return "psql -f \(file) \(database)" }
            let query = uri[slash...].firstIndex(of: "?").map { uri[$0...] } ?? ""
            let server = uri[start..<slash]
            let host = server.prefix { $0 != ":" }
            guard query.isEmpty, host.isEmpty || host == "localhost" || host == "127.0.0.1" else {
                return "psql -f \(file) '\(uri[..<slash])/\(database)\(query)'"
            }
            let port = server.dropFirst(host.count + 1)
            return "sudo -u postgres psql \(port.isEmpty ? "" : "-p \(port) ")\(database) < \(file)"
        }

        func uri(as user: String, _ password: String?) -> String {
            guard let start = uri.range(of: "://")?.upperBound else { return uri }
            return uri[..<start] + user + (password.map { ":\($0)" } ?? "") + "@" + uri[start...]
        }
    }

    /// Whether SQL, a URI and a shell accept the name without quotes or escapes.
    static func isName(_ text: String) -> Bool {
        text.count <= 63 && text.wholeMatch(of: /[a-z_][a-z0-9_]*/) != nil
    }

    struct File: Sendable {
        let name: String
        let what: String
        let text: String
    }

    func files(in folder: String) -> [File] {
        let service = app.map { "\($0.variable.rawValue)=\(Self.quoted($0.value))\n" }.joined()
        let more = """
            # The receiver of notifications, behind your TLS proxy, and the pages for people.
            #REPRICER_LISTEN=127.0.0.1:8080
            #REPRICER_PAGES_LISTEN=127.0.0.1:8081

            """
        return [
            File(
                name: "1-database.sql", what: "a superuser of PostgreSQL runs it first",
                text: SetupQueries.database(self)),
            File(
                name: "2-logins.sql", what: "a superuser runs it after migrate",
                text: SetupQueries.logins(self)),
            environment("owner.env", owner, "migrate, policy set, retention"),
            environment(
                "service.env", self.service, "serve, ingest, sync, reconcile, config check",
                more: service + more),
            environment("analyst.env", analyst, "plan, submit, status, undo"),
            environment("approver.env", approver, "show, approve, reject, pause"),
            environment("finance.env", finance, "report, and nothing else"),
        ]
    }

    /// People need only the database: it stores the app, and only the service needs the key.
    private func environment(
        _ name: String, _ user: String, _ what: String, more: String = ""
    ) -> File {
        File(
            name: name, what: what,
            text: "# For `repricer … --env-file`: \(what).\n"
                + "# The password is this user's, and stands in the database as a verifier alone.\n"
                + "REPRICER_DATABASE_URL=\(database.uri(as: user, passwords[user]?.text))\n" + more)
    }

    /// The value in the quoting of systemd and `--env-file`.
    private static func quoted(_ value: String) -> String {
        let isPlain = value.allSatisfy { character in
            character.isASCII
                && (character.isLetter || character.isNumber || "/._:-@".contains(character))
        }
        if isPlain { return value }
        let escaped = value.map { "\"\\".contains($0) ? "\\\($0)" : "\($0)" }.joined()
        return "\"\(escaped)\""
    }
}
