import Glibc
import Synchronization

/// A listening TCP socket, and a pipe that wakes every waiting thread when the server must stop.
///
/// The descriptors never change after `init` and are closed in `deinit`, when nobody uses them.
final class Listener: Sendable {
    let descriptor: Int32
    /// It is readable from `stop()` on, for every waiter, because the byte in it is never read.
    let stopDescriptor: Int32
    private let stopInput: Int32
    let port: Int

    private let hasStopped = Atomic(false)

    static let backlog: Int32 = 1024

    init(host: String, port: Int) throws(HTTPServerError) {
        var pipe: [Int32] = [-1, -1]
        guard Glibc.pipe(&pipe) == 0 else { throw Self.failure(host, port, errno) }
        (stopDescriptor, stopInput) = (pipe[0], pipe[1])
        for end in pipe { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        do throws(HTTPServerError) {
            descriptor = try Self.listen(host: host, port: port)
        } catch {
            for end in pipe { close(end) }
            throw error
        }
        self.port = Self.boundPort(descriptor) ?? port
    }

    deinit {
        close(descriptor)
        close(stopDescriptor)
        close(stopInput)
    }

    /// Ends accepting and every idle wait. Any thread may call it, and call it again.
    func stop() {
        hasStopped.store(true, ordering: .releasing)
        var byte: UInt8 = 1
        _ = write(stopInput, &byte, 1)
    }

    /// Lets the system refuse new connections while the accepted ones are being finished.
    func refuseFurther() {
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    var isStopping: Bool { hasStopped.load(ordering: .acquiring) }

    private static func failure(_ host: String, _ port: Int, _ code: Int32) -> HTTPServerError {
        HTTPServerError(
            code: .cannotBind,
            reason: "cannot listen on \(host):\(port): \(String(cString: strerror(code)))")
    }

    /// Why this machine can't listen on a host's address, whatever the port; nil where it can.
    static func obstacle(host: String) -> String? {
        let addresses = AddressList(host: host, port: 0, isPassive: true)
        if let reason = addresses.failure { return reason }
        var failed: Int32 = EADDRNOTAVAIL
        for address in addresses.entries {
            let descriptor = address.openSocket()
            guard descriptor >= 0 else {
                failed = errno
                continue
            }
            defer { close(descriptor) }
            if address.bind(descriptor) == 0 { return nil }
            failed = errno
        }
        return String(cString: strerror(failed))
    }

    private static func listen(host: String, port: Int) throws(HTTPServerError) -> Int32 {
        var failed: Int32 = EADDRNOTAVAIL
        guard (0...65535).contains(port) else { throw failure(host, port, EINVAL) }
        let addresses = AddressList(host: host, port: port, isPassive: true)
        if let reason = addresses.failure {
            throw HTTPServerError(
                code: .cannotBind, reason: "cannot listen on \(host):\(port): \(reason)")
        }
        for address in addresses.entries {
            let descriptor = address.openSocket()
            guard descriptor >= 0 else {
                failed = errno
                continue
            }
            var yes: Int32 = 1
            let size = socklen_t(MemoryLayout<Int32>.size)
            setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, size)
            if address.bind(descriptor) == 0 && Glibc.listen(descriptor, backlog) == 0 {
                // It is non-blocking, because `accept` would otherwise block where a connection is reset before it is
                // accepted.
                _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
                _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
                return descriptor
            }
            failed = errno
            close(descriptor)
        }
        throw failure(host, port, failed)
    }

    private static func boundPort(_ descriptor: Int32) -> Int? {
        var storage = sockaddr_storage()
        var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutablePointer(to: &storage) { pointer -> Int? in
            let raw = UnsafeMutableRawPointer(pointer)
            let address = raw.assumingMemoryBound(to: sockaddr.self)
            guard getsockname(descriptor, address, &size) == 0 else { return nil }
            // The port is at the same offset for IPv4 and IPv6.
            let inet = raw.assumingMemoryBound(to: sockaddr_in.self)
            return Int(UInt16(bigEndian: inet.pointee.sin_port))
        }
    }
}
