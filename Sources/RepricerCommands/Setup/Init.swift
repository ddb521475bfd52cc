import Glibc
import ServiceKit

extension Commands {
    private static let folder = Positional("DIR", "a folder for the files; made when missing")

    /// One value that is needed: an option, or a question where the option is missing and a person can answer.
    private struct Wish {
        let option: ValueOption
        let question: String
        /// The value for an empty answer; nil where an answer is required.
        let fallback: String?
        let variable: Variable?
        /// Whether no question is asked, because its fallback is used unless the option is given.
        var isQuiet = false

        init(
            _ name: String, _ value: String, _ question: String, or fallback: String? = nil,
            choices: [String] = [], for variable: Variable? = nil, isQuiet: Bool = false
        ) {
            let left = fallback.map { "; \($0) when left out" } ?? ""
            option = ValueOption(name, value, question + left, choices: choices)
            self.question = question
            self.fallback = fallback
            self.variable = variable
            self.isQuiet = isQuiet
        }
    }

    private static let environment = Wish(
        "environment", "ENVIRONMENT", "Apple's environment, Sandbox or Production",
        choices: ["Sandbox", "Production"], for: .environment)
    private static let appAppleID = Wish(
        "app-apple-id", "N", "the app's Apple ID in App Store Connect, needed in Production",
        for: .appAppleID)
    private static let database = Wish(
        "database", "URI", "the database, as libpq writes it, without a user",
        or: "postgresql://localhost/repricer")
    /// The first two are not asked. They come first, so that later answers are compared with them.
    private static let users = [
        Wish("service", "USER", "database user of the service", or: "repricerd", isQuiet: true),
        Wish("owner", "USER", "owner of the database", or: "repricer_owner", isQuiet: true),
        Wish("analyst", "USER", "database user of who plans and submits", or: "analyst"),
        Wish("approver", "USER", "database user of who approves", or: "approver"),
        Wish("finance", "USER", "database user of who reads the reports", or: "finance"),
    ]
    private static let app = [
        environment,
        Wish("bundle-id", "ID", "the app's bundle identifier", for: .bundleID), appAppleID,
        Wish("issuer-id", "ID", "issuer id of the In-App Purchase keys", for: .issuerID),
        Wish("key-id", "ID", "id of the In-App Purchase key", for: .keyID),
        Wish("key-file", "FILE", "path of the key's .p8 file", for: .keyFile),
    ]

    static let initialise = Command(
        "init", "write the settings and the SQL that a first day needs", positionals: [folder],
        options: (app + [database] + users).map(\.option),
        discussion: """
            On a terminal it asks for what is not given. It writes settings for the owner of the database, the service, an \
            analyst, an approver and finance, each with what it needs alone and readable by you alone, the SQL of the \
            database and its users, and says what to do next. Each user gets a random password, which stands in its \
            settings; the SQL holds what PostgreSQL keeps of it. It overwrites nothing (exit code 5) and connects to nothing.
            """
    ) { invocation in
        let typed = try invocation.arguments.required(folder)
        let folder = absolute(typed, invocation)
        let plan = try plan(invocation, in: folder)
        let files = plan.files(in: folder)
        try write(files, in: folder)
        let steps = steps(plan, in: typed)
        try invocation.print(
            json: [
                "directory": folder,
                "files": files.json([.key("file") { $0.name }, .key("what") { $0.what }]),
                "next": steps.json([.key("what") { $0.what }, .key("command") { $0.command }]),
            ],
            "wrote to \(harmless(folder)):\n"
                + definitionList(files.map { ("  " + $0.name, $0.what) })
                + "\nnext:\n"
                + steps.enumerated().map { index, step in
                    // The command stays in one piece, so that it can be copied.
                    sentence("\(index + 1). \(step.what)") + "     \(step.command)\n"
                }.joined())
        return .done
    }

    private static func absolute(_ path: String, _ invocation: Invocation) -> String {
        // An answer is not expanded by a shell, so `~/` is replaced here.
        if path.hasPrefix("~/"), let home = invocation.dependencies.environment["HOME"] {
            return home + path.dropFirst()
        }
        return path.hasPrefix("/") ? path : "\(invocation.dependencies.workingDirectory)/\(path)"
    }
}

extension Commands {
    /// Asks for what the options do not give. Where no person can be asked, all missing options are reported at once.
    private static func plan(_ invocation: Invocation, in folder: String) throws -> SetupPlan {
        var answers: [String: String] = [:]
        var missing: [String] = []
        for wish in app + [database] + users {
            let isNeeded =
                wish.option.name != appAppleID.option.name
                || answers[environment.option.name] == "Production"
            if let given = invocation.arguments[wish.option] {
                if let wrong = try fault(of: wish, given, answers) {
                    throw UsageError("--\(wish.option.name) \(wrong)")
                }
                answers[wish.option.name] = given
            } else if !isNeeded || wish.isQuiet || !invocation.dependencies.isInputTerminal {
                answers[wish.option.name] = wish.fallback
                if isNeeded && wish.fallback == nil { missing.append("--\(wish.option.name)") }
            } else {
                answers[wish.option.name] = try answer(to: wish, answers, invocation)
            }
        }
        // A part that takes its default may meet a name that was given to one before it.
        for (place, wish) in users.enumerated() {
            let name = wish.option.name
            if let twin = users[..<place].first(where: { answers[$0.option.name] == answers[name] }
            ),
                let user = answers[name]
            {
                throw UsageError(
                    "--\(twin.option.name) and --\(name) cannot both be \(quoted(user)); each needs a user of its own"
                )
            }
        }
        guard missing.isEmpty else {
            throw UsageError("nobody can be asked here; give \(missing.joined(separator: ", "))")
        }
        guard let address = SetupPlan.DatabaseAddress(answers[database.option.name] ?? "") else {
            throw UsageError("missing --\(database.option.name)")
        }
        let settings = app.compactMap { wish -> (Variable, String)? in
            guard let variable = wish.variable, let value = answers[wish.option.name] else {
                return nil
            }
            return (variable, variable == .keyFile ? absolute(value, invocation) : value)
        }
        var plan = SetupPlan(
            app: settings + [(.rootCertificates, "\(folder)/apple-roots")], database: address)
        (plan.analyst, plan.approver, plan.finance, plan.service, plan.owner) = (
            answers["analyst"] ?? "", answers["approver"] ?? "", answers["finance"] ?? "",
            answers["service"] ?? "", answers["owner"] ?? ""
        )
        for user in [plan.owner, plan.service, plan.analyst, plan.approver, plan.finance] {
            guard let password = SetupPlan.Password.random() else {
                throw CommandFailure(.failed, "OpenSSL cannot derive a password; nothing written")
            }
            plan.passwords[user] = password
        }
        return plan
    }

    /// Asks until the answer is valid; throws at the end of the input.
    private static func answer(
        to wish: Wish, _ answers: [String: String], _ invocation: Invocation
    ) throws -> String {
        while true {
            let fallback = wish.fallback.map { " [\($0)]" } ?? ""
            invocation.dependencies.sayPlainly("\(wish.question)\(fallback): ")
            guard let line = invocation.dependencies.readAnswer() else {
                invocation.dependencies.sayPlainly("\n")
                throw CommandFailure(
                    .interrupted, "the questions were not answered; nothing was written")
            }
            let typed = trimmed(line)
            // The choices of a list may be typed in any case.
            let choice = wish.option.choices.first { $0.lowercased() == typed.lowercased() }
            let value = typed.isEmpty ? wish.fallback ?? "" : choice ?? typed
            guard let wrong = try fault(of: wish, value, answers) else { return value }
            invocation.dependencies.sayPlainly("  \(wrong)\n")
        }
    }

    private static func trimmed(_ line: String) -> String {
        String(line.drop(while: \.isWhitespace).reversed().drop(while: \.isWhitespace).reversed())
    }

    /// The fault of an answer; nil where it is valid. Settings are judged as by `config check`.
    private static func fault(
        of wish: Wish, _ value: String, _ answers: [String: String]
    ) throws -> String? {
        if wish.option.name == database.option.name {
            return SetupPlan.DatabaseAddress(value) == nil
                ? "cannot be \(quoted(value)); write postgresql://HOST/NAME without user and password, NAME of small "
                    + "letters, digits and _, and no word of SQL"
                : nil
        }
        guard let variable = wish.variable else {
            guard SetupPlan.isName(value) else {
                return
                    "cannot be \(quoted(value)); a database user is of small letters, digits and _"
            }
            guard !ReservedNames.holdsUser(value) else {
                return "cannot be \(quoted(value)), which PostgreSQL or the schema uses itself"
            }
            let others = users.map(\.option.name).filter { $0 != wish.option.name }
            return others.contains { answers[$0] == value }
                ? "cannot be \(quoted(value)), who has another part already; each needs a user of its own"
                : nil
        }
        guard !value.isEmpty else { return variable.remedyWhenMissing }
        guard !value.contains(where: \.isNewline) else { return "has a line break" }
        let settings = try Settings.load(environment: [variable.rawValue: value], envFile: nil)
        return Configuration(settings: settings).problems
            .first { $0.subject == variable.rawValue }.map { "\($0.wrong); \($0.remedy)" }
    }
}

extension Commands {
    /// Writes all files, or none where one exists already.
    private static func write(_ files: [SetupPlan.File], in folder: String) throws {
        let roots = "\(folder)/apple-roots"
        let paths: [String] = files.map { "\(folder)/\($0.name)" }
        let there = paths.filter { access($0, F_OK) == 0 }
        guard there.isEmpty else {
            throw CommandFailure(
                .conflict,
                "nothing written: \(there.joined(separator: ", ")) \(there.count == 1 ? "is" : "are") there already; "
                    + "give another folder, or move \(there.count == 1 ? "it" : "them") away")
        }
        makeParents(of: folder)
        for path in [folder, roots] where mkdir(path, 0o700) != 0 && errno != EEXIST {
            throw cannotWrite(path)
        }
        // Root certificates are public, and the service may run as another user.
        guard chmod(roots, 0o755) == 0 else { throw cannotWrite(roots) }
        var written: [String] = []
        // After a failure the written files are removed, because they would block the next try.
        var isWhole = false
        defer { if !isWhole { for path in written { unlink(path) } } }
        for file in files {
            let path = "\(folder)/\(file.name)"
            // It contains a password, and a secret file that others can read would be refused.
            let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            guard descriptor >= 0 else { throw cannotWrite(path) }
            written.append(path)
            defer { Glibc.close(descriptor) }
            do throws(OutputError) {
                try OutputSink.descriptor(descriptor).write(file.text)
            } catch {
                throw CommandFailure(.failed, "\(path): \(error)")
            }
        }
        isWhole = true
    }

    /// A failure is reported when the folder itself cannot be created.
    private static func makeParents(of folder: String) {
        var path = folder.hasPrefix("/") ? "" : "."
        for part in folder.split(separator: "/").dropLast() {
            path += "/" + part
            _ = mkdir(path, 0o755)
        }
    }

    private static func cannotWrite(_ path: String) -> CommandFailure {
        CommandFailure(.failed, "\(path) cannot be written: \(String(cString: strerror(errno)))")
    }

    private static func steps(
        _ plan: SetupPlan, in folder: String
    ) -> [(what: String, command: String)] {
        let path = { (name: String) in ShellWord.quoted("\(folder)/\(name)") }
        return [
            (
                "as a superuser of PostgreSQL, make the owner and the database",
                plan.database.asSuperuser(path("1-database.sql"), in: "postgres")
            ),
            (
                "make the schema and its roles",
                "repricer migrate --env-file \(path("owner.env"))"
            ),
            (
                "as the superuser again, make the users",
                plan.database.asSuperuser(path("2-logins.sql"), in: plan.database.name)
            ),
            (
                "fetch Apple's root certificate from \(AppleRoot.source) and compare its SHA-256, "
                    + AppleRoot.sha256,
                "cp \(AppleRoot.file) \(path("apple-roots/")) && sha256sum \(path("apple-roots/" + AppleRoot.file))"
            ),
            (
                "try it all; each problem comes with its remedy",
                "repricer config check --env-file \(path("service.env"))"
            ),
            (
                "start the service, and let Apple post notifications to it",
                "repricer serve --env-file \(path("service.env"))"
            ),
            (
                "load what Apple knows of your subscribers, then plan",
                "repricer sync ids.csv --env-file \(path("service.env")) && "
                    + "repricer plan prices.csv --env-file \(path("analyst.env"))"
            ),
        ]
    }
}
