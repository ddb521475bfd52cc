extension Commands {
    static let configCheck = Command(
        "config check", "try the configuration: key, roots, database, schema, App Store, clock",
        discussion: """
            Exits 0 when all is well, 1 when something has to be mended, 6 when the database or the App Store \
            does not answer.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        let results = await ConfigurationCheck(
            configuration: configuration, world: invocation.world
        ).run()
        let problems = results.flatMap(\.problems)
        if invocation.isJSON {
            try invocation.print(json(results, isSound: problems.isEmpty))
        } else {
            var table = Table([.left("CHECK"), .left("RESULT"), .left("FOUND")])
            for result in results {
                table.add([
                    result.name,
                    result.problems.isEmpty ? (result.wasTried ? "ok" : "not tried") : "FAILED",
                    result.found ?? "",
                ])
            }
            try invocation.print(table.text)
        }
        for problem in problems { invocation.world.say(problem.description) }
        for unknown in configuration.unknownVariables { invocation.note(unknown.description) }
        if problems.isEmpty { return .done }
        return results.contains(where: \.isAway) ? .unavailable : .failed
    }

    private static func json(
        _ results: [ConfigurationCheck.Result], isSound: Bool
    ) -> JSONValue {
        let checks = results.map { result in
            JSONValue.object([
                "check": .string(result.name),
                "ok": result.wasTried ? .bool(result.problems.isEmpty) : .null,
                "found": .text(result.found),
                "problems": .array(
                    result.problems.map { problem in
                        .object([
                            "subject": .string(problem.subject), "source": .text(problem.source),
                            "wrong": .string(problem.wrong), "remedy": .string(problem.remedy),
                        ])
                    }),
            ])
        }
        return .object(["ok": .bool(isSound), "checks": .array(checks)])
    }
}
