extension Commands {
    static let configPrint = Command(
        "config print", "show each setting and where it came from",
        discussion:
            "Secrets are never shown: files by their path, the database without its password."
    ) { invocation in
        let configuration = try invocation.configuration()
        if invocation.isJSON {
            try invocation.print(json(configuration.entries))
        } else {
            var table = Table([.left("VARIABLE"), .left("VALUE"), .left("SOURCE")])
            for entry in configuration.entries {
                table.add([entry.variable.rawValue, entry.shown ?? "-", entry.source])
            }
            try invocation.print(table.text)
        }
        for unknown in configuration.unknownVariables { invocation.note(unknown.description) }
        return .done
    }

    private static func json(_ entries: [Configuration.Entry]) -> JSONValue {
        .object([
            "settings": .array(
                entries.map { entry in
                    .object([
                        "variable": .string(entry.variable.rawValue), "value": .text(entry.shown),
                        "source": .string(entry.source),
                    ])
                })
        ])
    }
}
