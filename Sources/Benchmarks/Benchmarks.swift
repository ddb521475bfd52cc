import Glibc

/// Why a measurement failed, for the person who runs it.
struct BenchmarkFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}

/// The programs that `Deploy/benches` measure with; not for users.
enum Benchmarks {
    private static let verbs: [String: @Sendable (Options) async throws -> Void] = [
        "payloads": PayloadFile.make,
        "load": LoadRun.run,
        "verification-rate": VerificationRate.run,
        "verify": VerifyBench.run,
        "fold-rate": FoldRate.run,
        "dispatch-rate": DispatchRate.run,
    ]

    /// `VERB NAME=VALUE…`; returns the exit code.
    static func run(_ arguments: [String]) async -> Int32 {
        guard let verb = arguments.first, let run = verbs[verb] else {
            say("usage: Benchmarks \(verbs.keys.sorted().joined(separator: "|")) [NAME=VALUE…]")
            return 2
        }
        do {
            try await run(try Options(Array(arguments.dropFirst())))
            return 0
        } catch {
            say("\(verb): \(error)")
            return 1
        }
    }

    private static func say(_ text: String) {
        let line = Array("benchmarks: \(text)\n".utf8)
        _ = write(STDERR_FILENO, line, line.count)
    }
}

/// `NAME=VALUE` arguments.
struct Options {
    private let values: [String: String]

    init(_ arguments: [String]) throws {
        values = try arguments.reduce(into: [:]) { values, argument in
            let parts = argument.split(separator: "=", maxSplits: 1)
            guard parts.count == 2 else {
                throw BenchmarkFailure("\(argument) is not NAME=VALUE")
            }
            values[String(parts[0])] = String(parts[1])
        }
    }

    func text(_ name: String) throws -> String {
        guard let value = values[name] else { throw BenchmarkFailure("\(name)= is missing") }
        return value
    }

    func integer(_ name: String, _ preset: Int? = nil) throws -> Int {
        guard let value = values[name] else {
            guard let preset else { throw BenchmarkFailure("\(name)= is missing") }
            return preset
        }
        guard let number = Int(value), number >= 0 else {
            throw BenchmarkFailure("\(name)=\(value) is no number")
        }
        return number
    }

    func double(_ name: String) throws -> Double? {
        guard let value = values[name] else { return nil }
        guard let number = Double(value), number > 0 else {
            throw BenchmarkFailure("\(name)=\(value) is no number above zero")
        }
        return number
    }
}
