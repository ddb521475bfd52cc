import AppStore
import Batches
import Facts
import HTTP
import JOSE
import Notifications
import Postgres
import Reports
import ServiceKit

/// Says on standard error what went wrong, and chooses the exit code.
func explain(_ error: any Error, world: World) -> ExitCode {
    switch error {
    case let failure as CommandFailure:
        if failure.isAboutFile {
            world.sayPlainly(harmless(failure.message) + "\n")
        } else {
            world.say(failure.message)
        }
        return failure.code
    case let output as OutputError:
        if !output.isClosedPipe { world.say(output.description) }
        return .failed
    case let fault as ConfigurationFault:
        for problem in fault.problems { world.say(problem.description) }
        return fault.problems.contains(where: \.isFromCommandLine) ? .usage : .failed
    case let settings as SettingsError:
        for fault in [settings] + settings.further {
            let text = harmless(fault.ownText)
            if fault.line == nil { world.say(text) } else { world.sayPlainly(text + "\n") }
        }
        return .failed
    case let database as PostgresError:
        return explain(CommandFailure(database: database), world: world)
    case .database(let error) as MigrationError:
        return explain(CommandFailure(database: error), world: world)
    case let migration as MigrationError:
        world.say(migration.description)
        return migration.exitCode
    case let file as BatchFileError:
        world.sayPlainly(harmless(file.description) + "\n")
        return .inputRejected
    case let chunks as FileChunks.Failure:
        world.sayPlainly(harmless(chunks.description) + "\n")
        return .inputRejected
    case let report as ReportError:
        world.say(report.description)
        return report.exitCode
    case let key as KeyFileError:
        world.say("\(Variable.keyFile.rawValue): \(key)")
        return .failed
    case let jose as JOSEError:
        world.say(
            "\(Variable.rootCertificates.rawValue): \(jose.detail); see `repricer config check`")
        return .failed
    case let server as HTTPServerError:
        world.say(
            "\(Variable.listen.rawValue): \(server.reason); choose another HOST:PORT, or stop the "
                + "program that holds it")
        return .failed
    case let client as HTTPClientError where client.code == .badCAFile:
        world.say(
            "\(Variable.apiCAFile.rawValue): \(client.reason); name a PEM file of CA certificates")
        return .failed
    case is CancellationError:
        return .interrupted
    default:
        world.say("\(error)")
        return .failed
    }
}

extension MigrationError {
    /// A database that holds something else than the folder says is a conflict; the rest is a failure.
    fileprivate var exitCode: ExitCode {
        switch self {
        case .editedAfterApply, .databaseIsNewer: .conflict
        case .failed(_, _, let error), .database(let error): CommandFailure(database: error).code
        case .directoryUnreadable, .noMigrations, .badFileName, .notText, .duplicateVersion,
            .missingVersion:
            .failed
        }
    }
}

extension ReportError {
    fileprivate var exitCode: ExitCode {
        switch self {
        case .unknownBatch, .hasNoBatches: .inputRejected
        case .notReadable: .approvalNeededOrRefused
        case .unavailable: .unavailable
        case .failed: .failed
        }
    }
}
