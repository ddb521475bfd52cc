import Glibc

/// Reads a file, or the standard input for `-`, in chunks of bounded size.
package final class FileChunks {
    private static let chunkBytes = 64 << 10

    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    private let path: String
    private let descriptor: Int32

    package init(path: String) throws(Failure) {
        self.path = path
        descriptor = path == "-" ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw FileChunks.failure(path) }
    }

    deinit {
        close(descriptor)
    }

    /// The next bytes; nil at the end.
    package func next() throws(Failure) -> [UInt8]? {
        var chunk = [UInt8](repeating: 0, count: Self.chunkBytes)
        while true {
            let count = chunk.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
            if count < 0 && errno == EINTR { continue }
            guard count >= 0 else { throw FileChunks.failure(path) }
            guard count > 0 else { return nil }
            chunk.removeLast(chunk.count - count)
            return chunk
        }
    }

    private static func failure(_ path: String) -> Failure {
        let why = String(cString: strerror(errno))
        return Failure(
            description: "\(path): unreadable_file: \(why); check the path and its permissions")
    }
}
