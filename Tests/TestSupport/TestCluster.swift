import Foundation
import Postgres

/// The private PostgreSQL of this test process: started once, migrated once, stopped at its end.
///
/// A watchdog shell starts the server and then reads a pipe whose other end only this process
/// holds. However the process ends, by `exit`, a crash or `kill -9`, the pipe closes, and the
/// watchdog stops the server and removes the folder.
package actor TestCluster {
    static let shared = TestCluster()
    package static let template = "repricer_template"

    /// Clones open at a time: more would only queue for the same two cores.
    private static let clonesMax = 6

    private var starting: Task<String, any Error>?
    private var watchdogPipe: Pipe?
    private var cloneCount = 0
    private var openClones = 0
    private var waiting: [CheckedContinuation<Void, Never>] = []
    private var administrator: PostgresPool?
    private let place = ClusterPlace.best

    /// A fresh copy of the migrated template.
    func makeDatabase() async throws -> TestDatabase {
        await enter()
        do {
            return try await clone()
        } catch {
            leave()
            throw error
        }
    }

    func dropDatabase(_ database: TestDatabase) async throws {
        defer { leave() }
        try await drop(database)
    }

    /// One that does not count: a test that holds one already must not wait for others.
    func clone(of template: String = template) async throws -> TestDatabase {
        let folder = try await start()
        cloneCount += 1
        let database = TestDatabase(name: "test_\(cloneCount)", socketFolder: folder)
        try await administer { connection in
            try await connection.script(
                """
                CREATE DATABASE \(database.name) TEMPLATE \(template)
                STRATEGY \(place.cloneStrategy)
                """)
        }
        return database
    }

    func drop(_ database: TestDatabase) async throws {
        try await administer { connection in
            try await connection.script("DROP DATABASE \(database.name) WITH (FORCE)")
        }
    }

    /// Leaves the database of a failed test, and with it the cluster, for somebody to look at.
    func keepDatabase(_ database: TestDatabase) {
        leave()
        // The watchdog reads this line when we end, and then leaves the server running.
        watchdogPipe?.fileHandleForWriting.write(Data("keep\n".utf8))
        let folder = String(database.socketFolder.dropLast("/socket".count))
        print("kept: psql '\(database.url)'")
        print("  afterwards: Deploy/postgres-private stop \(folder) && rm -rf \(folder)")
    }

    /// Runs something as the cluster's owner, outside any test database.
    func administer(_ body: @Sendable (PostgresConnection) async throws -> Void) async throws {
        guard let administrator else { throw TestSupportError.clusterNotStarted }
        try await administrator.withConnection { try await body($0) }
    }

    private func enter() async {
        if openClones < Self.clonesMax {
            openClones += 1
        } else {
            await withCheckedContinuation { waiting.append($0) }
        }
    }

    private func leave() {
        if waiting.isEmpty { openClones -= 1 } else { waiting.removeFirst().resume() }
    }

    private func start() async throws -> String {
        if let starting { return try await starting.value }
        let task = Task { try await self.startCluster() }
        starting = task
        return try await task.value
    }

    private func startCluster() async throws -> String {
        let folder = try launch(in: place.folder)
        let owner = TestDatabase(name: "postgres", socketFolder: folder)
        let pool = PostgresPool(
            conninfo: owner.url, applicationName: "test-support", size: 2,
            waitMax: .seconds(120))
        administrator = pool
        try await pool.withConnection { try await $0.script("CREATE DATABASE \(Self.template)") }
        let template = TestDatabase(name: Self.template, socketFolder: folder)
        let connection = try await PostgresConnection.connect(
            template.url, applicationName: "test-support")
        try await TestDatabase.migrate(connection, by: RepositoryFiles.path("Migrations"))
        await connection.close()
        // The next one leaves what every connection reads first in a file, which is copied with the rest.
        let first = try await PostgresConnection.connect(
            template.url, applicationName: "test-support")
        // CREATE DATABASE refuses a template that somebody is connected to.
        await first.close()
        return folder
    }

    /// Starts the watchdog and waits for its word that the server is up; returns the socket folder.
    private func launch(in parent: String) throws -> String {
        var pattern = Array("\(parent)/repricer-test-XXXXXX".utf8CString)
        guard mkdtemp(&pattern) != nil else { throw TestSupportError.noTemporaryFolder }
        let folder = String(
            decoding: pattern.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        let watchdog = Process()
        watchdog.executableURL = URL(fileURLWithPath: "/usr/bin/setsid")
        watchdog.arguments = [
            "bash", "-c", Self.watchdogScript, "watchdog",
            RepositoryFiles.path("Deploy/postgres-private"), folder,
        ]
        let life = Pipe()
        let answer = Pipe()
        watchdog.standardInput = life
        watchdog.standardOutput = answer
        // Other programs that tests start must not hold the pipe open after us.
        _ = fcntl(life.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC)
        try watchdog.run()
        watchdogPipe = life
        let text = String(
            decoding: answer.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        guard text.contains("ready") else { throw TestSupportError.clusterFailed(text) }
        return "\(folder)/socket"
    }

    private static let watchdogScript = """
        trap '' INT TERM HUP
        if "$1" start "$2" --volatile 2>&1; then echo ready; fi
        exec >/dev/null 2>&1
        [ -z "$(cat)" ] || exit 0
        "$1" stop "$2"
        rm -rf "$2"
        """
}

/// Where the cluster lies: in memory if there is room, since a clone costs a quarter there.
private struct ClusterPlace {
    /// One for the database files of all tests at a time, and their log.
    private static let bytesMin: UInt64 = 1 << 30

    var folder: String
    /// Copying files is quicker in memory, and slower on a disk, than writing their pages.
    var cloneStrategy: String

    static var best: ClusterPlace {
        let memory = "/dev/shm"
        var system = statvfs()
        let hasRoom =
            statvfs(memory, &system) == 0
            && UInt64(system.f_bavail) * UInt64(system.f_frsize) >= bytesMin
        return hasRoom && access(memory, W_OK | X_OK) == 0
            ? ClusterPlace(folder: memory, cloneStrategy: "FILE_COPY")
            : ClusterPlace(folder: "/tmp", cloneStrategy: "WAL_LOG")
    }
}

/// Why the tests have no database.
enum TestSupportError: Error, CustomStringConvertible {
    case noTemporaryFolder
    case clusterFailed(String)
    case clusterNotStarted

    var description: String {
        switch self {
        case .noTemporaryFolder: "cannot create a folder for PostgreSQL"
        case .clusterFailed(let text): "the private PostgreSQL did not start: \(text)"
        case .clusterNotStarted: "the private PostgreSQL is not running"
        }
    }
}
