import Reports
import ServiceKit

/// The command line of repricer.
package enum RepricerCommands {
    /// Every command that exists, in the order in which `help` lists them.
    package static let all: [Command] = [
        Commands.plan, Commands.submit, Commands.show, Commands.approve, Commands.reject,
        Commands.pause,
        Commands.resume, Commands.release, Commands.abort, Commands.undo,
        Commands.status, Commands.explain, Commands.scenario,
        Commands.timeline, Commands.close,
        Commands.serve, Commands.ingest, Commands.evidence, Commands.evidenceExport,
        Commands.evidenceVerify, Commands.retention, Commands.sync,
        Commands.reconcile, Commands.recover, Commands.reprocess, Commands.report,
        Commands.closeMonth,
        Commands.rulesShow,
        Commands.rulesImport, Commands.historyImport, Commands.auditShow, Commands.auditVerify,
        Commands.policyShow, Commands.policySet, Commands.outboxStatus, Commands.outboxReplay,
        Commands.extendOne, Commands.extendAll, Commands.extendStatus,
        Commands.extendRetryFailed, Commands.extendGiveUp, Commands.testNotification,
        Commands.initialise, Commands.migrate,
        Commands.migrateStatus,
        Commands.configCheck, Commands.configPrint,
        Commands.version, Commands.help, Commands.completion,
    ]

    /// Runs one command line (without the program's name) and returns the process's exit code.
    package static func main(_ arguments: [String], dependencies: Dependencies) async -> Int32 {
        await run(arguments, dependencies: dependencies).rawValue
    }

    /// The program: the process's own arguments and dependencies.
    package static func main() async -> Int32 {
        // A reader that disconnects must be an error of one write, not the end of the process.
        Signals.ignoreBrokenPipes()
        return await main(Array(CommandLine.arguments.dropFirst()), dependencies: .live())
    }

    static func run(_ arguments: [String], dependencies: Dependencies) async -> ExitCode {
        var parser = ArgumentParser(commands: all, arguments: arguments)
        do {
            switch try parser.parse() {
            case .help(let path):
                // The other options are not parsed, because they may be wrong.
                let text = helpText(path)
                if arguments.contains("--\(GlobalOptions.noPager.name)") {
                    try dependencies.output.write(text)
                } else {
                    try dependencies.paged(text)
                }
                return .done
            case .run(let command, let parsed):
                return await run(
                    command,
                    Invocation(
                        of: command, among: all, arguments: parsed, dependencies: dependencies))
            }
        } catch let fault as ArgumentParser.Fault {
            return report(fault.error, of: fault.command, dependencies: dependencies)
        } catch {
            return explain(error, dependencies: dependencies)
        }
    }

    private static func run(_ command: Command, _ invocation: Invocation) async -> ExitCode {
        do {
            let dependencies = invocation.dependencies
            let columns = dependencies.isOutputTerminal ? dependencies.terminalSize().columns : nil
            return try await Screen.$columns.withValue(columns) {
                try await Screen.$isColoured.withValue(invocation.isColoured) {
                    try await command.run(invocation)
                }
            }
        } catch let error as UsageError {
            return report(error, of: command, dependencies: invocation.dependencies)
        } catch {
            return explain(error, dependencies: invocation.explaining)
        }
    }

    private static func report(
        _ error: UsageError, of command: Command?, dependencies: Dependencies
    ) -> ExitCode {
        let name = command.map { "\($0.name): " } ?? ""
        dependencies.say(name + error.message)
        dependencies.sayPlainly(
            command.map(HelpText.usageLines(of:)) ?? "usage: repricer COMMAND [ARGUMENT...]\n")
        return .usage
    }

    private static func helpText(_ path: [String]) -> String {
        let named = all.filter { $0.path == path }
        let commands = named.isEmpty ? all.filter { $0.path.starts(with: path) } : named
        return path.isEmpty || commands.isEmpty
            ? HelpText.overview(of: all) : HelpText.text(of: commands)
    }
}
