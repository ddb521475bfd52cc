import Facts
import Glibc
import Notifications
import Postgres
import Reports
import ServiceKit
import Synchronization

extension Commands {
    static let migrationsFolder = ValueOption(
        "migrations", "DIR", "the folder of NNNN_what.sql; found beside the program when left out")
    private static let patience = ValueOption(
        "patience", "TIME",
        "how long to wait for locks that others hold, such as 90s or 2h; 10m when left out")

    static let migrate = Command(
        "migrate", "bring the database to this program's schema",
        options: [migrationsFolder, patience],
        discussion: """
            Applies each pending file of Migrations/. Run it as the owner of the database; several at once do no harm. Where the \
            settings name an app, the database is bound to it. It waits a second at a time for a lock, so that nobody \
            else waits long behind it. Ctrl-C or SIGTERM stops it at the next batch; the same command goes on from there.
            Programs of the former release go on beside a migration that says `breaking: no`. One that says yes first stops \
            their calls, waits a minute for what they are at, and is not applied where something of it lasts longer. The service \
            refuses to start on a schema that it can't use.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        // The binding of the database is permanent, so a misspelt environment must not count as missing.
        try configuration.checkIfSet(.bundleID, .environment, .clock)
        var (migrator, folder) = try migrator(invocation, configuration)
        if let text = invocation.arguments[patience] {
            guard let patience = Span.duration(text) else {
                throw UsageError("--patience '\(text)' is no time such as 90s, 10m or 2h")
            }
            migrator.limits.patience = patience
        }
        let stop = MigrationStop(invocation.dependencies.terminations())
        let teller = MigrationTeller(invocation)
        migrator.isStopped = { stop.isAsked }
        migrator.report = { teller.tell($0) }
        // This is the machine's clock, because migrations do not follow a rehearsal's time.
        let now = invocation.dependencies.realClock.nowMilliseconds()
        let applied = try await invocation.withConnection(configuration, name: "repricer migrate") {
            [migrator] connection in
            defer { teller.clear() }
            let applied = try await migrator.migrate(connection, at: now)
            if try await schemaState(connection).misfit() == nil {
                try await AppCheck.bind(configuration, on: connection)
                try await prepareMonths(
                    from: now, on: connection, patience: migrator.limits.patience, stop, invocation)
            }
            return applied
        }
        let version = migrator.migrations.count
        try invocation.print(
            json: [
                "applied": applied.map(\.file), "schema_version": version, "migrations": folder,
            ], applied.map { "applied \($0.file)\n" }.joined())
        if !invocation.isJSON {
            let shown = "schema version \(version), as \(harmless(folder)) has it"
            invocation.note(applied.isEmpty ? "nothing to do: \(shown)" : shown)
        }
        return .done
    }

    private static let monthsPause: Duration = .seconds(1)

    /// Makes the coming months. Another `migrate`, or a backup that reads the tables, may hold them: it lets others pass and
    /// tries again, and in the end leaves them to `serve`, which makes them every hour. Those of a rehearsal's time are made
    /// by `serve` alone, on its clock.
    private static func prepareMonths(
        from now: Int64, on connection: PostgresConnection, patience: Duration,
        _ stop: MigrationStop, _ invocation: Invocation
    ) async throws {
        let end = ContinuousClock.now + patience
        while true {
            do {
                _ = try await connection.read {
                    try MonthPartitions.prepareAll(
                        now: now, monthsAhead: MonthsAhead.count, on: $0)
                }
                return
            } catch let error as PostgresError where error.sqlState == .lockNotAvailable {
                guard ContinuousClock.now < end, !stop.isAsked else {
                    return invocation.note(
                        "the coming months are not made, because another session reads the tables: "
                            + "`serve` makes them")
                }
                try await invocation.dependencies.wait(monthsPause)
            }
        }
    }

    /// The migrator, and the folder that it reads.
    static func migrator(
        _ invocation: Invocation, _ configuration: Configuration
    ) throws -> (Migrator, folder: String) {
        let folder = try MigrationsFolder.find(
            option: invocation.arguments[migrationsFolder], configuration: configuration,
            dependencies: invocation.dependencies)
        return (try Migrator(directory: folder), folder)
    }
}

/// The stop that a signal requests. The second signal ends the process at once, and the server rolls back what was not
/// committed.
private final class MigrationStop: Sendable {
    private let asked = Atomic(false)
    private let signals: Mutex<Task<Void, Never>?> = Mutex(nil)

    var isAsked: Bool { asked.load(ordering: .acquiring) }

    init(_ stream: AsyncStream<Int32>) {
        let task = Task { [weak self] in
            for await _ in stream {
                guard let self, !self.isAsked else { _exit(ExitCode.interrupted.rawValue) }
                self.asked.store(true, ordering: .releasing)
            }
        }
        signals.withLock { $0 = task }
    }

    deinit { signals.withLock { $0?.cancel() } }
}

/// Reports what `migrate` is doing: on a terminal in one place, otherwise with a line now and then.
private final class MigrationTeller: Sendable {
    private static let pace: Duration = .seconds(10)

    private let invocation: Invocation
    private let bar: ProgressBar
    private let nextAt = Mutex<ContinuousClock.Instant?>(nil)

    init(_ invocation: Invocation) {
        self.invocation = invocation
        bar = invocation.progressBar
    }

    func clear() { bar.clear() }

    func tell(_ progress: Migrator.Progress) {
        if case .passedOver(let file, let sessions) = progress {
            bar.clear()
            return invocation.note(
                "\(file): \(counted(sessions, "connection")) of older programs \(sessions == 1 ? "is" : "are") idle and "
                    + "can make no call; applied beside them")
        }
        let (text, done, total) = Self.words(progress)
        if invocation.dependencies.isMessagesTerminal {
            return bar.drawIfLate(done: done, total: total, note: text)
        }
        let isDue = nextAt.withLock { next in
            let now = ContinuousClock.now
            // The first report is made at once.
            guard next.map({ now >= $0 }) ?? true else { return false }
            next = now + Self.pace
            return true
        }
        if isDue { invocation.note(text) }
    }

    private static func words(
        _ progress: Migrator.Progress
    ) -> (text: String, done: Int64, total: Int64) {
        switch progress {
        case .waitsForLock(let file, let holders):
            (
                "\(file) waits for a lock"
                    + (holders.isEmpty ? "" : "; there are \(holders.joined(separator: ", "))"),
                0, 0
            )
        case .waitsForPrograms(let file, let sessions, let calls):
            (
                "\(file) is breaking and waits for older programs: \(counted(sessions, "connection")), "
                    + "\(counted(calls, "call")) without an answer", 0, 0
            )
        case .step(let file, let what): ("\(file): \(what)", 0, 0)
        case .batch(let file, let what, let bucket?, let rows):
            (
                "\(file): \(what), \(counted(rows, "row")), bucket \(bucket + 1) of \(Bucket.count)",
                Int64(bucket), Int64(Bucket.count)
            )
        case .batch(let file, let what, nil, let rows):
            ("\(file): \(what), \(counted(rows, "row"))", 0, 0)
        case .analyzes(let table): ("analysing \(table)", 0, 0)
        case .passedOver: ("", 0, 0)
        }
    }
}
