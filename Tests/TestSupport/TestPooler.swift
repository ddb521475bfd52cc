import Foundation
import Glibc
import Synchronization

/// A PgBouncer in transaction mode before the cluster of the tests, ended with its last user.
package final class TestPooler: Sendable {
    private static let programs = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"]

    private let process: Mutex<Process>
    private let folder: ScratchFolder

    /// Starts it for these people, named as their connection strings name them.
    ///
    /// - Parameter sessions: server sessions for each database and person; few make everybody share them.
    package init(for people: [String], sessions: Int) throws {
        folder = try ScratchFolder()
        guard
            let program = Self.programs.first(where: {
                FileManager.default.isExecutableFile(atPath: $0)
            }), let socket = TestDatabase.current?.socketFolder
        else { throw TestPoolerError.notInstalled }
        let list = people.map { "\"\($0)\" \"\"\n" }.joined()
        let users = try folder.file("users.txt", list)
        let settings = try folder.file(
            "pgbouncer.ini",
            """
            [databases]
            * = host=\(socket) port=5432
            [pgbouncer]
            listen_addr =
            listen_port = 5432
            unix_socket_dir = \(folder.path)
            auth_type = trust
            auth_file = \(users)
            pool_mode = transaction
            default_pool_size = \(sessions)
            max_client_conn = 200
            """)
        let process = Process()
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = ["-q", settings]
        if geteuid() == 0 {
            // It refuses to be root, and the cluster's socket is its owner's.
            process.arguments = ["-q", "-u", "postgres", settings]
            let owner = try FileManager.default.attributesOfItem(atPath: socket)[.ownerAccountID]
            try FileManager.default.setAttributes(
                [.ownerAccountID: owner ?? 0, .posixPermissions: 0o755], ofItemAtPath: folder.path)
        }
        process.standardError = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        try process.run()
        self.process = Mutex(process)
    }

    /// Killed: it began with the mask of a thread that takes no signals, so a termination would wait for ever.
    deinit {
        process.withLock { process in
            guard process.isRunning else { return }
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }
    }

    /// The connection string of this test's database through the pooler, once that takes connections.
    package func url(of person: String = "postgres") async throws -> String {
        guard let database = TestDatabase.current else { throw TestPoolerError.notInstalled }
        // Its socket lies there a moment before it listens.
        try await eventually("pgbouncer") {
            guard process.withLock({ $0.isRunning }) else { throw TestPoolerError.ended }
            return Self.listens("\(folder.path)/.s.PGSQL.5432")
        }
        return "postgresql:///\(database.name)?host=\(folder.path)&port=5432&user=\(person)"
    }
}

extension TestPooler {
    private static func listens(_ path: String) -> Bool {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix(107)) }
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
            }
        }
    }
}

/// Why there is no pooler.
enum TestPoolerError: Error, CustomStringConvertible {
    case notInstalled
    case ended

    var description: String {
        switch self {
        case .notInstalled: "there is no pgbouncer: run Deploy/install"
        case .ended: "pgbouncer ended at once"
        }
    }
}
