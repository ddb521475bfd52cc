import ServiceKit

/// Says on standard error what went wrong, and chooses the exit code.
func explain(_ error: any Error, world: World) -> ExitCode {
    switch error {
    case let failure as CommandFailure:
        world.say(failure.message)
        return failure.code
    case let output as OutputError:
        if !output.isClosedPipe { world.say(output.description) }
        return .failed
    case let fault as ConfigurationFault:
        for problem in fault.problems { world.say(problem.description) }
        return fault.problems.contains(where: \.isFromCommandLine) ? .usage : .failed
    case let settings as SettingsError:
        world.say(settings.description)
        return .failed
    case is CancellationError:
        return .interrupted
    default:
        world.say("\(error)")
        return .failed
    }
}
