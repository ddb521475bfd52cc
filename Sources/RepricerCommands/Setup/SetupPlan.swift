import ServiceKit

/// What `init` was told: the app, the database, and who is who in it.
struct SetupPlan: Sendable {
    /// Of the service, in the order in which its file has them.
    var app: [(variable: Variable, value: String)]
    var database: DatabaseAddress
    var owner = ""
    var service = ""
    var analyst = ""
    var approver = ""
    var finance = ""

    /// A libpq URI without a user, which each file adds.
    struct DatabaseAddress: Sendable {
        let uri: String
        let name: String

        /// nil: no such URI, or one that names a user or a password already.
        init?(_ text: String) {
            guard text.hasPrefix("postgresql://") || text.hasPrefix("postgres://"),
                !text.contains("@"), !text.contains("user="), !text.contains("password="),
                !text.contains(where: { $0.isWhitespace || "'\"\\`$".contains($0) })
            else { return nil }
            let rest = text.drop { $0 != ":" }.dropFirst(3)
            let path = rest.prefix { $0 != "?" }.drop { $0 != "/" }.dropFirst()
            guard SetupPlan.isName(String(path)) else { return nil }
            uri = text
            name = String(path)
        }

        /// What leads `psql` to the database `postgres` of the same server.
        var maintenance: String {
            guard let start = uri.range(of: "://")?.upperBound,
                let slash = uri[start...].firstIndex(of: "/")
            else { return "postgres" }
            let query = uri[slash...].firstIndex(of: "?").map { uri[$0...] } ?? ""
            guard slash > start || !query.isEmpty else { return "postgres" }
            return "'\(uri[..<slash])/postgres\(query)'"
        }

        func uri(as user: String) -> String {
            uri + (uri.contains("?") ? "&" : "?") + "user=\(user)"
        }
    }

    /// A name that SQL, a URI and a shell take as it is.
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
                name: "2-logins.sql", what: "the owner runs it after migrate",
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

    /// People need the database alone: it remembers the app, and the key is the service's.
    private func environment(
        _ name: String, _ user: String, _ what: String, more: String = ""
    ) -> File {
        File(
            name: name, what: what,
            text: "# For `repricer … --env-file`: \(what).\n"
                + "# A password can stand in the address, as USER:PASSWORD@HOST, or in ~/.pgpass.\n"
                + "REPRICER_DATABASE_URL=\(database.uri(as: user))\n" + more)
    }

    /// As systemd and `--env-file` read it.
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
