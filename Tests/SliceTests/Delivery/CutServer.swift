import Foundation
import Glibc
import Synchronization

/// An App Store on a bare socket: it answers as a script says, and may close the connection in the middle.
final class CutServer: Sendable {
    struct Reply: Sendable {
        var bytes: [UInt8]
        /// After the bytes nothing more comes.
        var closes = false
        /// Comes after the bytes, again and again, until the client goes away; a single byte a hundred times a second. Empty:
        /// nothing comes, and the connection stays open.
        var endless: [UInt8]?

        static func whole(_ body: String) -> Reply {
            Reply(
                bytes: Array(
                    "HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)".utf8))
        }

        static func cut(_ text: String) -> Reply { Reply(bytes: Array(text.utf8), closes: true) }
    }

    let port: Int
    private let listener: Int32
    private let heads = Mutex<[String]>([])

    /// The first line of each request.
    var requests: [String] { heads.withLock { $0 } }

    /// `reply` is given the first line of each request; each connection has a thread.
    init(_ reply: @escaping @Sendable (String) -> Reply) throws {
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = listener
        let code = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, size) == 0 && listen(descriptor, 16) == 0
                    && getsockname(descriptor, $0, &size) == 0
            }
        }
        guard code else { throw POSIXError(.EADDRINUSE) }
        port = Int(in_port_t(bigEndian: address.sin_port))
        Thread.detachNewThread { [self] in
            while true {
                let connection = accept(descriptor, nil, nil)
                guard connection >= 0 else { return }
                Thread.detachNewThread { [self] in
                    serve(connection, reply)
                    close(connection)
                }
            }
        }
    }

    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
    }

    private func serve(_ connection: Int32, _ reply: (String) -> Reply) {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(connection, &chunk, chunk.count, 0)
            guard count > 0 else { return }
            bytes += chunk.prefix(count)
            guard let line = Self.firstLine(ofWhole: bytes) else { continue }
            bytes = []
            heads.withLock { $0.append(line) }
            let answer = reply(line)
            _ = send(connection, answer.bytes, answer.bytes.count, Int32(MSG_NOSIGNAL))
            if let endless = answer.endless { return goOn(connection, endless) }
            if answer.closes { return }
        }
    }

    private func goOn(_ connection: Int32, _ bytes: [UInt8]) {
        // Readable: the client has closed.
        var entry = pollfd(fd: connection, events: Int16(POLLIN), revents: 0)
        while poll(&entry, 1, bytes.isEmpty ? -1 : bytes.count == 1 ? 10 : 0) == 0 {
            guard send(connection, bytes, bytes.count, Int32(MSG_NOSIGNAL)) > 0 else { return }
        }
    }

    /// nil until head and body have come.
    private static func firstLine(ofWhole bytes: [UInt8]) -> String? {
        let text = String(decoding: bytes, as: UTF8.self)
        guard let end = text.firstRange(of: "\r\n\r\n") else { return nil }
        let length =
            text[..<end.lowerBound].lowercased().firstMatch(of: /content-length: *([0-9]+)/)
            .flatMap { Int($0.1) } ?? 0
        guard text[end.upperBound...].utf8.count >= length else { return nil }
        return text.split(separator: "\r\n").first.map(String.init)
    }
}
