import Glibc

/// Reads a file, or the standard input for `-`, in chunks of bounded size.
package final class FileChunks {
    private static let chunkBytes = 64 << 10
    private static let gzip: [UInt8] = [0x1F, 0x8B]

    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    private let path: String
    private let descriptor: Int32
    private var hasBegun = false
    /// The bytes that were read so far, and those of the whole file (nil for a pipe).
    package private(set) var bytesRead: Int64 = 0
    package let size: Int64?

    package init(path: String) throws(Failure) {
        self.path = path
        descriptor = path == "-" ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw FileChunks.failure(path) }
        var status = stat()
        let isRegular = fstat(descriptor, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
        size = isRegular ? Int64(status.st_size) : nil
    }

    deinit {
        close(descriptor)
    }

    /// The next bytes; nil at the end. Throws for a gzip file, which its first two bytes show.
    package func next() throws(Failure) -> [UInt8]? {
        if hasBegun { return try read() }
        hasBegun = true
        var first: [UInt8] = []
        while first.count < Self.gzip.count, let more = try read() { first += more }
        guard !first.starts(with: Self.gzip) else {
            let name = path == "-" ? "FILE" : path
            throw Failure(
                description: "\(path): compressed_file: it is compressed by gzip; "
                    + "run zcat \(name), and pipe it in as -")
        }
        return first.isEmpty ? nil : first
    }

    private func read() throws(Failure) -> [UInt8]? {
        var chunk = [UInt8](repeating: 0, count: Self.chunkBytes)
        while true {
            let count = chunk.withUnsafeMutableBytes {
                Glibc.read(descriptor, $0.baseAddress, $0.count)
            }
            if count < 0 && errno == EINTR { continue }
            guard count >= 0 else { throw FileChunks.failure(path) }
            guard count > 0 else { return nil }
            bytesRead += Int64(count)
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
