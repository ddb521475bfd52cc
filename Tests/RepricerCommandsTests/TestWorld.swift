import ServiceKit

@testable import RepricerCommands

/// What one command line did: its exit code and both streams.
struct Outcome: Equatable {
    let code: ExitCode
    let output: String
    let messages: String
}

/// Runs commands in memory. The environment is only what a test gives.
func run(
    _ arguments: String..., environment: [String: String] = [:], input: String = "",
    change: (inout World) -> Void = { _ in }
) async -> Outcome {
    await run(arguments, environment: environment, input: input, change: change)
}

func run(
    _ arguments: [String], environment: [String: String] = [:], input: String = "",
    change: (inout World) -> Void = { _ in }
) async -> Outcome {
    let (output, messages) = (OutputMemory(), OutputMemory())
    var world = World(
        environment: environment, workingDirectory: "/nowhere",
        realClock: ManualClock(1_767_571_200_000), output: output.sink, messages: messages.sink)
    change(&world)
    let code = await RepricerCommands.run(arguments, world: world)
    return Outcome(code: code, output: output.text, messages: messages.text)
}
