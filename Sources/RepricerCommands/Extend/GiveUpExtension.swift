import Extensions
import Pricing

extension Commands {
    private static let why = ValueOption(
        "reason", "TEXT", "why; kept with the extension", isRequired: true)

    static let extendGiveUp = Command(
        "extend give-up", "end a mass extension that the App Store does not know",
        positionals: [extensionID], options: [why],
        discussion: """
            A running one lets no other of its product begin. It can be given up a day after its call, while the App \
            Store answers that it knows no such request. Nothing is taken back: who was extended stays so, and a \
            summary that comes after all completes it.
            """
    ) { invocation in
        let id = try ExtensionArguments.uuid(try invocation.arguments.required(extensionID))
        let reason = try invocation.arguments.required(why)
        guard reason.count <= ExtensionArguments.noteMax else {
            throw CommandFailure(
                .inputRejected,
                "the reason is longer than \(ExtensionArguments.noteMax) characters")
        }
        let configuration = try invocation.configuration()
        let now = try await invocation.now(configuration)
        return try await invocation.withPool(configuration) { pool in
            try await pool.withTransaction {
                try ExtensionQueries.giveUp(id, reason: reason, at: now.milliseconds, on: $0)
            }
            if invocation.isJSON {
                try invocation.print(
                    .object(["extension_id": .string(id), "state": .string("given_up")]))
            } else {
                try invocation.print("gave up \(id): another of its product may begin\n")
            }
            return .done
        }
    }
}
