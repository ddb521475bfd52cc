import Postgres
import ServiceKit

/// The run of one migration in one database.
struct MigrationRun: Sendable {
    /// The most batches of one bucket, or of a step without buckets. A statement that needs more probably finds again
    /// the rows that it has changed.
    static let batchesMax = 1_000_000

    let migrator: Migrator
    let migration: Migration
    /// The instant that is recorded, in UTC milliseconds.
    let instant: Int64

    private var limits: Migrator.Limits { migrator.limits }

    /// Returns false where another migrator was faster.
    func finish(_ connection: PostgresConnection) async throws -> Bool {
        var didSomething = false
        if migration.isBreaking { try await fence(connection) }
        do {
            for (index, step) in migration.steps.enumerated() {
                if index > 0 {
                    migrator.report(.step(file: migration.file, what: step.what))
                }
                if try await run(step, index, connection) { didSomething = true }
            }
        } catch {
            if migration.isBreaking { try await withdraw(connection) }
            throw error
        }
        guard migration.steps.count > 1 || !migration.analyzed.isEmpty else { return didSomething }
        for table in migration.analyzed {
            migrator.report(.analyzes(table: table))
            try await patiently(connection, "analysing \(table)") { connection in
                try connection.script(SchemaQueries.analyze(table))
            }
        }
        return try await patiently(connection, "the end") { connection in
            _ = try connection.query(SchemaQueries.lock)
            return try connection.execute(SchemaQueries.finish(migration, at: instant)) > 0
        }
    }

    // MARK: Steps

    /// Returns false where the step was done already.
    private func run(
        _ step: Migration.Step, _ index: Int, _ connection: PostgresConnection
    ) async throws -> Bool {
        switch step.kind {
        case .transaction: try await runTogether(step, index, connection)
        case .alone: try await runAlone(step, index, connection)
        case .batches: try await runInBatches(step, index, connection)
        }
    }

    private func runTogether(
        _ step: Migration.Step, _ index: Int, _ connection: PostgresConnection
    ) async throws -> Bool {
        let isWhole = migration.steps.count == 1 && migration.analyzed.isEmpty
        let hasPrograms = try await hasPrograms(connection)
        let isAnnounced = index == 0 && migration.isBreaking && hasPrograms
        return try await patiently(connection, step.what) { connection in
            _ = try connection.query(SchemaQueries.lock)
            guard try place(index, connection) != nil else { return false }
            let checksum = try Migrator.checksum(of: migration, connection)
            let isNew =
                try connection.execute(
                    SchemaQueries.record(migration, checksum: checksum, at: instant)) > 0
            guard !isNew || !isAnnounced else {
                throw MigrationError.programsRun(
                    file: migration.file, holders: ["a migrator that gave up meanwhile"])
            }
            try connection.execute(
                SchemaQueries.noteStep(migration, index, bucket: 0, rows: 0, isDone: true))
            if isWhole { try connection.execute(SchemaQueries.finish(migration, at: instant)) }
            // The text runs last. If it ends the transaction, nothing is stored after it on its own.
            try connection.script(step.text)
            return true
        }
    }

    /// Where a step continues; nil where it is done.
    private func place(
        _ index: Int, _ connection: isolated PostgresConnection
    ) throws -> (bucket: Int, rows: Int)? {
        for row in try connection.query(SchemaQueries.steps(of: migration)) {
            guard try row.int("step") == index else { continue }
            guard try !row.bool("is_done") else { return nil }
            return (try row.int("bucket"), try row.int("changed_rows"))
        }
        return (0, 0)
    }

    /// Runs the statement outside a transaction, so another migrator may be running it too. The second one finds it
    /// recorded, or waits for the lock of the first.
    private func runAlone(
        _ step: Migration.Step, _ index: Int, _ connection: PostgresConnection
    ) async throws -> Bool {
        let clock = ContinuousClock()
        let end = clock.now + limits.patience
        var attempt = 1
        while true {
            guard !migrator.isStopped() else { throw stopped(step.what) }
            guard try await connection.read({ try place(index, $0) }) != nil else { return false }
            // A server process continues to build when its migrator is gone.
            if try await connection.query(SchemaQueries.indexBuilds).one().int("builds") > 0 {
                guard clock.now < end else {
                    throw MigrationError.locked(
                        file: migration.file, holders: try await holders(connection))
                }
                try await pause(&attempt, step.what, connection)
                continue
            }
            if let wanted = step.index, try await isBuilt(wanted, connection) { break }
            do {
                for name in try await connection.query(SchemaQueries.brokenIndexes)
                    .map({ try $0.text("name") })
                {
                    try await connection.script(SchemaQueries.dropIndex(name))
                }
                try await connection.script(step.text)
                break
            } catch let error as PostgresError {
                // Another migrator may have done it in the meantime.
                if try await connection.read({ try place(index, $0) }) == nil { return false }
                guard error.sqlState?.isAboutLocks == true, clock.now < end else {
                    throw failed(error, step.what)
                }
                try await pause(&attempt, step.what, connection)
            }
        }
        return try await patiently(connection, step.what) { connection in
            _ = try connection.query(SchemaQueries.lock)
            return try connection.execute(
                SchemaQueries.noteStep(migration, index, bucket: 0, rows: 0, isDone: true)) > 0
        }
    }

    /// Whether the index exists and is valid, that is, whether a build whose record is missing was completed.
    private func isBuilt(
        _ index: Migration.Index, _ connection: PostgresConnection
    ) async throws -> Bool {
        try await connection.query(SchemaQueries.validIndex(index)).one()
            .bool("is_built")
    }

    private func runInBatches(
        _ step: Migration.Step, _ index: Int, _ connection: PostgresConnection
    ) async throws -> Bool {
        let buckets = step.spreadsByBucket ? Bucket.count : 1
        var didSomething = false
        var (bucket, batches) = (0, 0)
        while true {
            guard !migrator.isStopped() else { throw stopped(step.what) }
            let after = try await patiently(connection, step.what) { connection in
                _ = try connection.query(SchemaQueries.lock)
                guard let place = try place(index, connection) else { return nil as Place? }
                let text = step.text.replacing(":bucket", with: "\(place.bucket)")
                let rows = try connection.execute(SQL(unsafe: text))
                let next = rows == 0 ? place.bucket + 1 : place.bucket
                try connection.execute(
                    SchemaQueries.noteStep(
                        migration, index, bucket: min(next, buckets - 1), rows: rows,
                        isDone: next >= buckets))
                return Place(bucket: next, rows: place.rows + rows)
            }
            guard let after else { return didSomething }
            didSomething = true
            migrator.report(
                .batch(
                    file: migration.file, what: step.what,
                    bucket: step.spreadsByBucket ? min(after.bucket, buckets - 1) : nil,
                    rows: after.rows))
            if after.bucket >= buckets { return true }
            batches = after.bucket == bucket ? batches + 1 : 0
            bucket = after.bucket
            guard batches < Self.batchesMax else {
                throw MigrationError.endless(file: migration.file, step: step.what)
            }
        }
    }

    private struct Place: Sendable {
        /// The bucket to go on with.
        var bucket: Int
        var rows: Int
    }

    // MARK: Older programs

    /// Announces the migration, so that the database refuses calls of older programs. Returns when none of their calls
    /// is on its way.
    private func fence(_ connection: PostgresConnection) async throws {
        guard try await hasPrograms(connection) else { return }
        try await patiently(connection, "the announcement") { connection in
            _ = try connection.query(SchemaQueries.lock)
            let checksum = try Migrator.checksum(of: migration, connection)
            try connection.execute(
                SchemaQueries.record(migration, checksum: checksum, at: instant))
            try connection.execute(SchemaQueries.noteLowestProgram)
        }
        do {
            try await waitForPrograms(connection)
        } catch {
            try await withdraw(connection)
            throw error
        }
    }

    /// Returns false before the migration that adds `lowest_program`, because no program can run on such a schema.
    private func hasPrograms(_ connection: PostgresConnection) async throws -> Bool {
        try await connection.query(SchemaQueries.controlsPresence).one().bool("is_present")
    }

    /// Waits for transactions that began before the announcement could be seen: they may still write intents of
    /// calls. Those that began later cannot.
    private func waitForPrograms(_ connection: PostgresConnection) async throws {
        let clock = ContinuousClock()
        let end = clock.now + limits.programsWait
        let before = try await transactions(connection)
        while true {
            guard !migrator.isStopped() else { throw stopped("older programs") }
            let now = try await transactions(connection)
            let open = now.filter { transaction in before.contains { $0.id == transaction.id } }
            let row = try await connection.query(SchemaQueries.programsAtWork).one()
            let (sessions, calls) = (try row.int("sessions"), try row.int("calls"))
            if open.isEmpty && sessions == 0 && calls == 0 { return }
            guard clock.now < end else {
                guard open.isEmpty && calls == 0 else {
                    throw MigrationError.programsRun(
                        file: migration.file,
                        holders: open.isEmpty ? ["\(calls) calls"] : open.map(\.holder))
                }
                // A pooler keeps connections of programs that have ended.
                return migrator.report(.passedOver(file: migration.file, sessions: sessions))
            }
            migrator.report(
                .waitsForPrograms(file: migration.file, sessions: sessions, calls: calls))
            try await Task.sleep(for: limits.programsPoll)
        }
    }

    private func transactions(
        _ connection: PostgresConnection
    ) async throws -> [(id: String, holder: String)] {
        try await connection.query(SchemaQueries.programTransactions).map { row in
            (try row.text("id"), try Self.holder(row))
        }
    }

    /// Withdraws the announcement where nothing of the migration is done, so that older programs go on.
    private func withdraw(_ connection: PostgresConnection) async throws {
        guard try await hasPrograms(connection) else { return }
        try await patiently(connection, "the withdrawal", isStoppable: false) { connection in
            _ = try connection.query(SchemaQueries.lock)
            if try connection.execute(SchemaQueries.withdraw(migration)) > 0 {
                try connection.execute(SchemaQueries.noteLowestProgram)
            }
        }
    }

    // MARK: Locks

    /// Runs a transaction that waits briefly for locks, and repeats it until it gets them.
    private func patiently<T: Sendable>(
        _ connection: PostgresConnection, _ what: String, isStoppable: Bool = true,
        _ body: @Sendable (isolated PostgresConnection) throws -> T
    ) async throws -> T {
        let clock = ContinuousClock()
        let end = clock.now + limits.patience
        let limit = LockWaitQueries.limit(milliseconds: limits.lockTimeout.milliseconds)
        var attempt = 1
        while true {
            guard !isStoppable || !migrator.isStopped() else { throw stopped(what) }
            do {
                return try await connection.transaction { connection in
                    try connection.execute(limit)
                    return try body(connection)
                }
            } catch let error as PostgresError {
                guard error.sqlState?.isAboutLocks == true else { throw failed(error, what) }
                guard clock.now < end else {
                    throw MigrationError.locked(
                        file: migration.file, holders: try await holders(connection))
                }
                try await pause(&attempt, what, connection)
            }
        }
    }

    private func pause(
        _ attempt: inout Int, _ what: String, _ connection: PostgresConnection
    ) async throws {
        migrator.report(
            .waitsForLock(file: migration.file, holders: try await holders(connection)))
        var random = SystemRandomNumberGenerator()
        try await Task.sleep(for: limits.wait.delay(attempt: attempt, random: &random))
        attempt += 1
    }

    private func holders(_ connection: PostgresConnection) async throws -> [String] {
        try await connection.query(SchemaQueries.lockHolders).map { try Self.holder($0) }
    }

    private static func holder(_ row: Row) throws -> String {
        let application = try row.text("application")
        return "pid \(try row.int("pid")) (\(try row.text("usename"))"
            + (application.isEmpty ? ")" : ", \(application))")
    }

    private func stopped(_ what: String) -> MigrationError {
        .stopped(file: migration.file, step: what)
    }

    private func failed(_ error: PostgresError, _ what: String) -> MigrationError {
        migration.steps.count > 1
            ? .stepFailed(file: migration.file, step: what, error)
            : .failed(version: migration.version, file: migration.file, error)
    }
}

extension SQLState {
    /// Whether other sessions hold what it asked for. The same may succeed later.
    fileprivate var isAboutLocks: Bool {
        self == .lockNotAvailable || self == .deadlockDetected
    }
}
