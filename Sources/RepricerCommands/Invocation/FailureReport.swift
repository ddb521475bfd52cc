import AppStore
import Batches
import Facts
import HTTP
import JOSE
import Notifications
import Postgres
import Reports
import ServiceKit

/// Writes to standard error what went wrong, and chooses the exit code.
func explain(_ error: any Error, dependencies: Dependencies) -> ExitCode {
    switch error {
    case let failure as CommandFailure:
        if failure.isAboutFile {
            dependencies.sayPlainly(harmless(failure.message) + "\n")
        } else {
            dependencies.say(failure.message)
        }
        return failure.code
    case let output as OutputError where output.isClosedPipe: return .failed
    case let fault as ConfigurationFault:
        for problem in fault.problems { dependencies.say(problem.description) }
        return fault.problems.contains(where: \.isFromCommandLine) ? .usage : .failed
    case let settings as SettingsError:
        for fault in [settings] + settings.further {
            let text = harmless(fault.ownText)
            if fault.line == nil {
                dependencies.say(text)
            } else {
                dependencies.sayPlainly(text + "\n")
            }
        }
        return .failed
    case let file as BatchFileError:
        for fault in [file] + file.further {
            dependencies.sayPlainly(harmless(fault.description) + "\n")
        }
        return .inputRejected
    case is CancellationError: return .interrupted
    default: return explain(failure(of: error), dependencies: dependencies)
    }
}

private func failure(of error: any Error) -> CommandFailure {
    switch error {
    case let database as PostgresError: CommandFailure(database: database)
    case .database(let error) as MigrationError: CommandFailure(database: error)
    case let migration as MigrationError: CommandFailure(migration.exitCode, "\(migration)")
    case is FileChunks.Failure:
        CommandFailure(.inputRejected, "\(error)", isAboutFile: true)
    case let report as ReportError: CommandFailure(report.exitCode, "\(report)")
    case let key as SecretFile.Fault: .about(.keyFile, "\(key.wrong); \(key.remedy)")
    case let jose as JOSEError:
        .about(.rootCertificates, "\(jose.detail); see `repricer config check`")
    case let server as HTTPServerError: .cannotListen(.listen, server)
    case let client as HTTPClientError where client.code == .badCAFile:
        .about(.apiCAFile, "\(client.reason); name a PEM file of CA certificates")
    default: CommandFailure(.failed, "\(error)")
    }
}

extension CommandFailure {
    fileprivate static func about(_ variable: Variable, _ text: String) -> CommandFailure {
        CommandFailure(.failed, "\(variable.rawValue): \(text)")
    }

    /// `variable` names the address.
    static func cannotListen(_ variable: Variable, _ error: HTTPServerError) -> CommandFailure {
        .about(
            variable,
            "\(error.reason); choose another HOST:PORT, or stop the program that holds it")
    }
}

extension MigrationError {
    /// A database that differs from the folder is a conflict; everything else is a failure.
    fileprivate var exitCode: ExitCode {
        switch self {
        case .editedAfterApply, .databaseIsNewer: .conflict
        case .failed(_, _, let error), .stepFailed(_, _, let error), .database(let error):
            CommandFailure(database: error).code
        case .directoryUnreadable, .noMigrations, .badFileName, .notText, .duplicateVersion,
            .missingVersion, .unmarked, .badHead, .endless:
            .failed
        case .locked: .unavailable
        case .programsRun: .conflict
        case .stopped: .interrupted
        case .lacksRights: .approvalNeededOrRefused
        }
    }
}

extension ReportError {
    fileprivate var exitCode: ExitCode {
        switch self {
        case .unknownBatch, .hasNoBatches, .notYet: .inputRejected
        case .ambiguousBatch: .conflict
        case .hasNoPast: .usage
        case .notReadable: .approvalNeededOrRefused
        case .unavailable: .unavailable
        case .failed, .tooLarge: .failed
        }
    }
}
