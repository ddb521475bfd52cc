extension Commands {
    static let configPrint = Command(
        "config print", "show each setting and where it came from",
        discussion:
            "Secrets are never shown: files by their path, the database without its password."
    ) { invocation in
        let configuration = try invocation.configuration()
        let columns: [Column<Configuration.Entry>] = [
            .text("VARIABLE", "variable") { $0.variable.rawValue },
            .text("VALUE", "value", none: "-") { $0.shown },
            .text("SOURCE", "source") { $0.source },
        ]
        try invocation.print(
            json: ["settings": configuration.entries.json(columns)],
            configuration.entries.table(columns))
        for unknown in configuration.unknownVariables { invocation.note(unknown.description) }
        return .done
    }
}
