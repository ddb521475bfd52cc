import ServiceKit
import Synchronization
import TestSupport

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
    change: (inout Dependencies) -> Void = { _ in }
) async -> Outcome {
    await run(arguments, environment: environment, input: input, change: change)
}

func run(
    _ arguments: [String], environment: [String: String] = [:], input: String = "",
    change: (inout Dependencies) -> Void = { _ in }
) async -> Outcome {
    let (output, messages) = (OutputMemory(), OutputMemory())
    var harness = Dependencies(
        environment: environment, workingDirectory: "/nowhere",
        realClock: ManualClock(1_767_571_200_000), output: output.sink, messages: messages.sink)
    // What a slow machine takes longer for must not look otherwise.
    harness.progressAfter = .seconds(3600)
    change(&harness)
    let code = await RepricerCommands.run(arguments, dependencies: harness)
    return Outcome(code: code, output: output.text, messages: messages.text)
}

/// Keeps what is written to it.
final class OutputMemory: Sendable {
    private let bytes = Mutex<[UInt8]>([])

    var text: String { String(decoding: bytes.withLock { $0 }, as: UTF8.self) }

    var sink: OutputSink {
        OutputSink { bytes throws(OutputError) in self.bytes.withLock { $0 += bytes } }
    }
}
