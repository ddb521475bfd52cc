import ServiceKit

/// One run of one command: its arguments, the world, and the settings once somebody asks for them.
package struct Invocation: Sendable {
    let arguments: ParsedArguments
    let world: World

    var isJSON: Bool { arguments[GlobalOptions.json] }
    var isQuiet: Bool { arguments[GlobalOptions.quiet] }

    /// Prints data.
    func print(_ text: String) throws(OutputError) {
        try world.output.write(text)
    }

    /// Prints one JSON value on a line of its own.
    func print(_ value: JSONValue) throws(OutputError) {
        try world.output.write(value.text + "\n")
    }

    /// A remark for a person; `--quiet` silences it.
    func note(_ message: String) {
        if !isQuiet { world.say(message) }
    }
}

extension Invocation {
    /// Reads the settings: the environment over `--env-file`, and `--clock` over both.
    func configuration() throws -> Configuration {
        let settings = try Settings.load(
            environment: world.environment, envFile: arguments[GlobalOptions.environmentFile])
        return Configuration(settings: settings, clockOption: arguments[GlobalOptions.clock])
    }
}
