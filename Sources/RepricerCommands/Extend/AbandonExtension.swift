import Extensions
import Pricing

extension Commands {
    private static let why = ValueOption(
        "reason", "TEXT", "why; kept with the extension", isRequired: true)

    static let extendGiveUp = Command(
        "extend give-up", "end an extension that the App Store does not know or take",
        positionals: [extensionID], options: [why],
        discussion: """
            While a mass extension is open, no other one of its product can begin. It can be given up a day after its call, while the App \
            Store answers that it knows no such request, or refuses the call in words that say nothing. \
            Nothing is taken back: who was extended stays so, and a summary that comes after all completes it. \
            The extension of one subscription can be given up while none of its calls is out.
            """
    ) { invocation in
        let typed = try invocation.arguments.required(extensionID)
        let reason = try ExtensionArguments.short(
            try invocation.arguments.required(why), "reason")
        return try await invocation.withDatabase { pool, now in
            let id = try await ExtensionFinder.find(typed, pool: pool)
            let isSingle = try await pool.withTransaction {
                try ExtensionQueries.abandon(id, reason: reason, at: now, on: $0)
                return try ExtensionQueries.isSingle(id, on: $0)
            }
            try invocation.print(
                json: ["extension_id": id, "state": "given_up"],
                "gave up \(id): another of its \(isSingle ? "subscription" : "product") may begin\n"
            )
            return .done
        }
    }
}
