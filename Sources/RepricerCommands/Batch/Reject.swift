extension Commands {
    private static let reason = ValueOption(
        "reason", "TEXT", "why; kept with the batch", isRequired: true)

    static let reject = Command(
        "reject", "refuse a batch that waits for approval", positionals: [batch],
        options: [reason], discussion: "None of its changes will be sent."
    ) { invocation in
        let why = try invocation.arguments.required(reason)
        return try await withdraw(invocation, newState: "rejected", reason: why)
    }
}
