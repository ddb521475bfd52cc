import Glibc

/// The socket for a service's status messages to systemd: one datagram per message, as in sd_notify(3).
package struct SupervisorSocket: Sendable {
    private let address: sockaddr_un
    private let length: socklen_t

    /// `path` is `NOTIFY_SOCKET`. A path that begins with `@` is an abstract socket's. Nil where it cannot be a
    /// socket's path.
    package init?(path: String) {
        var bytes = Array(path.utf8)
        guard let first = bytes.first, first == UInt8(ascii: "/") || first == UInt8(ascii: "@")
        else {
            return nil
        }
        if first == UInt8(ascii: "@") { bytes[0] = 0 }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        // A file's path needs its terminating zero.
        guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { return nil }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        self.address = address
        let head = MemoryLayout<sockaddr_un>.size - MemoryLayout.size(ofValue: address.sun_path)
        length = socklen_t(head + bytes.count)
    }

    /// Sends a message such as `READY=1` without waiting, and returns whether the socket took it.
    @discardableResult
    package func tell(_ message: String) -> Bool {
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        let text = Array(message.utf8)
        return withUnsafePointer(to: address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                sendto(descriptor, text, text.count, Int32(MSG_NOSIGNAL), address, length)
                    == text.count
            }
        }
    }
}

/// Reports to systemd that all services have started, that the process is alive, and that it is stopping. It must be
/// the last service of its group.
package struct Supervised: Service {
    package let name = "supervisor"
    private let socket: SupervisorSocket
    private let signOfLifeEvery: Duration?

    /// nil where `NOTIFY_SOCKET` names no socket. `environment` holds that and, with a watchdog, `WATCHDOG_USEC`.
    package init?(environment: [String: String]) {
        guard let socket = environment["NOTIFY_SOCKET"].flatMap(SupervisorSocket.init) else {
            return nil
        }
        self.socket = socket
        // It signals twice per watchdog timeout, after which systemd would end the process.
        signOfLifeEvery = environment["WATCHDOG_USEC"].flatMap(Int64.init)
            .flatMap { $0 > 1 ? .microseconds($0 / 2) : nil }
    }

    /// Asks systemd for `time` to stop. It replaces a shorter `TimeoutStopSec` of the unit, at which systemd would end
    /// the process before it has drained.
    package func extend(by time: Duration) {
        socket.tell("EXTEND_TIMEOUT_USEC=\(Int64(time / .microseconds(1)))")
    }

    package func run() async throws {
        defer { socket.tell("STOPPING=1") }
        socket.tell("READY=1")
        while !Task.isCancelled {
            try await Task.sleep(for: signOfLifeEvery ?? .seconds(3600))
            socket.tell("WATCHDOG=1")
        }
    }
}
