import COpenSSL
import Glibc
import ServiceKit

/// Why bytes could not be moved.
enum StreamError: Error, Equatable {
    case timedOut
    case lost(String)
    case tls(String)
}

/// A point in time by which an operation must be done.
typealias Deadline = ContinuousClock.Instant

/// An open socket. It is closed with its last reference, so that nobody can use a reused descriptor number.
final class SocketDescriptor: Sendable {
    let number: Int32

    init(_ number: Int32) {
        self.number = number
    }

    deinit {
        close(number)
    }

    /// Ends only the input, as if the peer had closed. Any thread may call it.
    func endInput() {
        shutdown(number, Int32(SHUT_RD))
    }

    /// Closes with a reset instead of an orderly end.
    func resetOnClose() {
        var hard = linger(l_onoff: 1, l_linger: 0)
        setsockopt(
            number, SOL_SOCKET, SO_LINGER, &hard, socklen_t(MemoryLayout<linger>.size))
    }

    /// Ends every wait on the socket. Any thread may call it.
    func breakOff() {
        shutdown(number, Int32(SHUT_RDWR))
    }
}

/// One connected socket, plain or TLS.
///
/// It blocks its thread, but never beyond a deadline.
/// Owned by one task at a time; the descriptor underneath is non-blocking.
final class SocketStream {
    enum Readiness {
        case ready, timedOut, stopped
    }

    /// A signed notification of 20 KB with its head fits into one read.
    private static let readBytes = 32 * 1024

    let socket: SocketDescriptor
    private var ssl: OpaquePointer?

    /// Takes ownership of the descriptor; it is closed with the stream.
    convenience init(descriptor: Int32) {
        self.init(SocketDescriptor(descriptor))
    }

    init(_ socket: SocketDescriptor) {
        self.socket = socket
        Self.prepare(socket.number)
    }

    deinit {
        if let ssl { SSL_free(ssl) }
    }

    private var descriptor: Int32 { socket.number }

    private static func prepare(_ descriptor: Int32) {
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        var yes: Int32 = 1
        setsockopt(
            descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, socklen_t(MemoryLayout<Int32>.size))
    }

    /// Waits for input. A readable `stop` descriptor wins over the socket.
    func waitReadable(until deadline: Deadline, stop: Int32? = nil) -> Readiness {
        if let ssl, SSL_pending(ssl) > 0 { return .ready }
        return Self.wait(for: descriptor, events: POLLIN, until: deadline, stop: stop)
    }

    /// Whether bytes, or the peer's end, wait to be read.
    static func isReadable(_ descriptor: Int32) -> Bool {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&entry, 1, 0) > 0
    }

    /// Whether neither data nor the peer's end is waiting to be read, which is so for a kept connection that is still
    /// good. TLS session tickets, which a server sends unasked after the handshake, are processed and do not count.
    var isQuiet: Bool {
        if let ssl, SSL_pending(ssl) > 0 { return false }
        guard Self.isReadable(descriptor) else { return true }
        guard let ssl else { return false }
        ERR_clear_error()
        var byte: UInt8 = 0
        let count = SSL_peek(ssl, &byte, 1)
        return count <= 0 && SSL_get_error(ssl, count) == SSL_ERROR_WANT_READ
    }

    /// Reads some bytes; empty at the end of the stream.
    func read(until deadline: Deadline) throws(StreamError) -> [UInt8] {
        while true {
            var count = 0
            let bytes = [UInt8](unsafeUninitializedCapacity: Self.readBytes) { buffer, used in
                count = self.readOnce(buffer)
                used = max(0, count)
            }
            if count > 0 { return bytes }
            guard let wanted = try wantedEvents(after: count, isRead: true) else { return [] }
            try waitOrThrow(for: wanted, until: deadline)
        }
    }

    /// Writes everything. Calls `onProgress` as soon as a first byte may have been sent.
    func write(
        _ bytes: [UInt8], until deadline: Deadline, onProgress: () -> Void = {}
    ) throws(StreamError) {
        var written = 0
        while written < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                self.writeOnce(UnsafeRawBufferPointer(rebasing: buffer[written...]))
            }
            if count > 0 {
                written += count
                onProgress()
                continue
            }
            guard let wanted = try wantedEvents(after: count, isRead: false) else {
                throw StreamError.lost("the connection was closed")
            }
            try waitOrThrow(for: wanted, until: deadline)
        }
    }

    /// Says that nothing more will be sent; the peer may still be sending.
    func endOutput() {
        // This ends only our side and does not wait: the peer's close is read, if at all, while draining.
        if let ssl {
            ERR_clear_error()
            SSL_shutdown(ssl)
        }
        shutdown(descriptor, Int32(SHUT_WR))
    }

    /// Reads and drops input until its end, `bytesMax` or the deadline.
    ///
    /// Closing a socket with unread input resets it, and the peer would lose the last response.
    func drain(bytesMax: Int, until deadline: Deadline) {
        var total = 0
        var buffer = [UInt8](repeating: 0, count: Self.readBytes)
        while total < bytesMax {
            // It reads below TLS, because nobody will use the bytes.
            let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
            if count > 0 {
                total += count
                continue
            }
            guard count < 0, errno == EAGAIN || errno == EINTR else { return }
            let readiness = Self.wait(for: descriptor, events: POLLIN, until: deadline, stop: nil)
            guard readiness == .ready else { return }
        }
    }
}

extension SocketStream {
    /// Connects. Returns 0 or the error number.
    func connect(to address: AddressList.Address, until deadline: Deadline) -> Int32 {
        if address.connect(descriptor) == 0 { return 0 }
        guard errno == EINPROGRESS else { return errno }
        guard Self.wait(for: descriptor, events: POLLOUT, until: deadline, stop: nil) == .ready
        else { return ETIMEDOUT }
        var code: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &size)
        return code
    }

    /// Why the peer's certificate was refused, if it was.
    var verificationFailure: String? {
        guard let ssl else { return nil }
        let code = SSL_get_verify_result(ssl)
        guard code != Int(X509_V_OK), let text = X509_verify_cert_error_string(code) else {
            return nil
        }
        return String(cString: text)
    }

    /// Starts TLS on the stream, which owns `session` from here on.
    func startTLS(
        _ session: OpaquePointer, asServer: Bool, until deadline: Deadline
    ) throws(StreamError) {
        ssl = session
        guard SSL_set_fd(session, descriptor) == 1 else {
            throw StreamError.tls(OpenSSLErrors.take())
        }
        while true {
            ERR_clear_error()
            let result = asServer ? SSL_accept(session) : SSL_connect(session)
            if result == 1 { return }
            let code = SSL_get_error(session, result)
            switch code {
            case SSL_ERROR_WANT_READ: try waitOrThrow(for: POLLIN, until: deadline)
            case SSL_ERROR_WANT_WRITE: try waitOrThrow(for: POLLOUT, until: deadline)
            case SSL_ERROR_SSL: throw StreamError.tls(OpenSSLErrors.take())
            default: throw StreamError.lost("the connection ended in the TLS handshake")
            }
        }
    }

    private func readOnce(_ buffer: UnsafeMutableBufferPointer<UInt8>) -> Int {
        guard let ssl else { return recv(descriptor, buffer.baseAddress, buffer.count, 0) }
        ERR_clear_error()
        return Int(SSL_read(ssl, buffer.baseAddress, Int32(clamping: buffer.count)))
    }

    private func writeOnce(_ buffer: UnsafeRawBufferPointer) -> Int {
        guard let ssl else {
            return send(
                descriptor, buffer.baseAddress, buffer.count, Int32(MSG_NOSIGNAL))
        }
        ERR_clear_error()
        return Int(SSL_write(ssl, buffer.baseAddress, Int32(clamping: buffer.count)))
    }

    /// The poll events to wait for after a call that moved no bytes; nil at an orderly end.
    private func wantedEvents(
        after count: Int, isRead: Bool
    ) throws(StreamError) -> Int32? {
        let code = errno
        if let ssl {
            switch SSL_get_error(ssl, Int32(clamping: count)) {
            case SSL_ERROR_WANT_READ: return POLLIN
            case SSL_ERROR_WANT_WRITE: return POLLOUT
            case SSL_ERROR_ZERO_RETURN: return nil
            case SSL_ERROR_SYSCALL where code != 0:
                throw StreamError.lost(String(cString: strerror(code)))
            default: throw StreamError.lost(OpenSSLErrors.take())
            }
        }
        if count == 0 { return nil }
        switch code {
        case EAGAIN, EINTR: return isRead ? POLLIN : POLLOUT
        default: throw StreamError.lost(String(cString: strerror(code)))
        }
    }

    private func waitOrThrow(for events: Int32, until deadline: Deadline) throws(StreamError) {
        switch Self.wait(for: descriptor, events: events, until: deadline, stop: nil) {
        case .ready: return
        case .timedOut, .stopped: throw StreamError.timedOut
        }
    }

    /// Polls until the descriptor has one of `events`, the deadline passes or `stop` is readable.
    static func wait(
        for descriptor: Int32, events: Int32, until deadline: Deadline, stop: Int32?
    ) -> Readiness {
        withUnsafeTemporaryAllocation(of: pollfd.self, capacity: 2) { entries in
            // poll ignores a negative descriptor.
            entries.initializeElement(
                at: 0, to: pollfd(fd: descriptor, events: Int16(events), revents: 0))
            entries.initializeElement(
                at: 1, to: pollfd(fd: stop ?? -1, events: Int16(POLLIN), revents: 0))
            while true {
                let left = deadline - .now
                // It is rounded up, because the loop would otherwise spin through the last millisecond.
                let milliseconds = Int32(clamping: max(0, (left.milliseconds) + 1))
                let count = poll(entries.baseAddress, 2, left <= .zero ? 0 : milliseconds)
                if count < 0 && errno == EINTR { continue }
                if entries[1].revents != 0 { return .stopped }
                if entries[0].revents != 0 { return .ready }
                if left <= .zero { return .timedOut }
            }
        }
    }
}
