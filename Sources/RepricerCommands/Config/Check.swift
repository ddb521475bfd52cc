extension Commands {
    private static let user = ValueOption(
        "for", "USER",
        "whose settings they are; service when left out, people need the database alone",
        choices: ConfigurationCheck.User.allCases.map(\.rawValue))

    static let configCheck = Command(
        "config check", "try the configuration: key, roots, database, schema, App Store, clock",
        options: [user],
        discussion: """
            For the service it makes one signed call to the App Store, which changes nothing and proves the key. Exits 0 when all is well, \
            1 when something has to be mended, 6 when the database or the App Store does not answer.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        let results = await ConfigurationCheck(
            configuration: configuration, dependencies: invocation.dependencies,
            user: invocation.arguments[user].flatMap(ConfigurationCheck.User.init(rawValue:))
                ?? .service
        ).run()
        let problems = results.flatMap(\.problems)
        try invocation.print(
            json: ["ok": problems.isEmpty, "checks": results.json(columns)], results.table(columns))
        for problem in problems { invocation.explaining.say(problem.description) }
        for unknown in configuration.unknownVariables { invocation.note(unknown.description) }
        if problems.isEmpty { return .done }
        return results.contains(where: \.isAway) ? .unavailable : .failed
    }

    private static let columns: [Column<ConfigurationCheck.Result>] = [
        .text("CHECK", "check") { $0.name },
        .shown(.left("RESULT")) { result in
            result.problems.isEmpty ? (result.wasTried ? "ok" : "not tried") : "FAILED"
        },
        .key("ok") { $0.wasTried ? $0.problems.isEmpty : nil },
        .text("FOUND", "found") { $0.found },
        .key("problems") {
            $0.problems.json([
                .key("subject") { $0.subject }, .key("source") { $0.source },
                .key("wrong") { $0.wrong }, .key("remedy") { $0.remedy },
            ])
        },
    ]
}
