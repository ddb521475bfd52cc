package import Postgres

/// Why migrations cannot be read or applied.
package enum MigrationError: Error, Sendable, Equatable {
    case directoryUnreadable(path: String)
    case noMigrations(path: String)
    /// The file is not named `NNNN_what.sql`.
    case badFileName(String)
    case notText(file: String)
    case duplicateVersion(Int, files: [String])
    case missingVersion(Int)
    /// Its head does not say whether older programs may run beside it.
    case unmarked(file: String)
    /// The migrator cannot follow the lines of the file's head.
    case badHead(file: String, String)
    /// The file's text is not what was applied under this number.
    case editedAfterApply(version: Int, file: String)
    /// The database has a migration that the directory lacks: it was migrated by a newer release.
    case databaseIsNewer(version: Int, name: String)
    /// The file failed; its transaction was rolled back.
    case failed(version: Int, file: String, PostgresError)
    /// A step of the file failed. The steps before it stay done, and the same command continues with this step.
    case stepFailed(file: String, step: String, PostgresError)
    case database(PostgresError)
    /// It waited too long for locks of other sessions. What it had done before stays.
    case locked(file: String, holders: [String])
    /// Older programs are still at work, and would meet a schema that they do not know. Nothing of the file was
    /// applied.
    case programsRun(file: String, holders: [String])
    /// A person asked it to stop. The next run continues from there.
    case stopped(file: String, step: String)
    /// A step that repeats until it finds no more rows reached its limit and still found some.
    case endless(file: String, step: String)
    /// The database user lacks rights to create the schema. Nothing was changed.
    case lacksRights([MissingRight])
}

/// A right that the migrator needs and that its database user does not have.
package struct MissingRight: Sendable, Equatable {
    /// What is missing, in words.
    package let missing: String
    /// The statement by which a superuser grants it; nil where none should.
    package let statement: String?
}

extension MigrationError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .directoryUnreadable(let path):
            "migrations.unreadable: cannot read the directory \(path)"
        case .noMigrations(let path):
            "migrations.none: no NNNN_what.sql in \(path)"
        case .badFileName(let name):
            "migrations.file_name: \(name) is not named NNNN_what.sql (small letters, digits, _)"
        case .notText(let file):
            "migrations.not_text: \(file) is not UTF-8 text"
        case .duplicateVersion(let version, let files):
            "migrations.duplicate: \(files.joined(separator: " and ")) share the number \(version)"
        case .missingVersion(let version):
            "migrations.gap: number \(version) is missing"
        case .unmarked(let file):
            "migrations.unmarked: the head of \(file) must say `-- breaking: yes` or `-- breaking: no`, once"
        case .badHead(let file, let what):
            "migrations.head: \(file): \(what)"
        case .locked(let file, let holders):
            "migrations.locked: \(file) waited too long for locks\(Self.held(by: holders)); run it again when "
                + "they are done, or give it longer (--patience)"
        case .programsRun(let file, let holders):
            "migrations.programs: \(file) is breaking, and older programs are at work\(Self.held(by: holders)); "
                + "nothing of it was applied. Stop every `serve`, or end these sessions, and run it again"
        case .stopped(let file, let step):
            "migrations.stopped: in \(file), step '\(step)'; what was done stays, and the same command goes on"
        case .endless(let file, let step):
            "migrations.endless: the step '\(step)' of \(file) finds rows for ever; its statement must "
                + "pass over rows that it has changed"
        case .editedAfterApply(let version, let file):
            "migrations.edited: \(file) was changed after version \(version) was applied; "
                + "restore the file and write a new migration"
        case .databaseIsNewer(let version, let name):
            "migrations.newer: the database has version \(version) (\(name)), which is not in the "
                + "directory; use the release that applied it"
        case .failed(_, let file, let error):
            "migrations.failed: \(file) was rolled back: \(error)"
        case .stepFailed(let file, let step, let error):
            "migrations.failed: \(file), in the step '\(step)'; what was done before it stays, and the same command goes on "
                + "once the cause is mended: \(error)"
        case .database(let error):
            "migrations.database: \(error)"
        case .lacksRights(let rights):
            "migrations.rights: this database user lacks "
                + rights.map(\.missing).joined(separator: ", and ") + "; nothing was changed"
                + Self.granted(by: rights.compactMap(\.statement))
        }
    }

    private static func granted(by statements: [String]) -> String {
        statements.isEmpty
            ? ""
            : ". As a superuser of the database: "
                + statements.map { $0 + ";" }.joined(separator: " ")
    }

    private static func held(by holders: [String]) -> String {
        holders.isEmpty ? "" : ", held by " + holders.joined(separator: ", ")
    }
}
