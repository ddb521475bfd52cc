import Digests
import Glibc
import Pricing

/// Where the bytes of a batch come from.
package protocol BatchByteSource: AnyObject {
    /// The next bytes, at most 64 KiB at a time; empty at the end.
    func read() throws(BatchFileError) -> [UInt8]
}

/// A file, or standard input for `-`.
package final class FileByteSource: BatchByteSource {
    private static let chunkBytes = 65_536
    private let path: String
    private let descriptor: Int32

    package init(path: String) throws(BatchFileError) {
        self.path = path
        descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        if descriptor < 0 { throw FileByteSource.failure(path) }
    }

    deinit {
        if descriptor > STDIN_FILENO { close(descriptor) }
    }

    package func read() throws(BatchFileError) -> [UInt8] {
        while true {
            var count = 0
            let chunk = [UInt8](unsafeUninitializedCapacity: FileByteSource.chunkBytes) {
                buffer, initialized in
                count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
                initialized = max(0, count)
            }
            if count >= 0 { return chunk }
            if errno != EINTR { throw FileByteSource.failure(path) }
        }
    }

    private static func failure(_ path: String) -> BatchFileError {
        BatchFileError(
            code: .unreadableFile, file: path, line: nil,
            message: String(cString: strerror(errno)),
            remedy: "check the path and its permissions")
    }
}

/// Bytes in memory, handed out in chunks of any size.
package final class MemoryByteSource: BatchByteSource {
    private var rest: ArraySlice<UInt8>
    private let chunkBytes: Int

    package init(_ bytes: [UInt8], chunkBytes: Int = 65_536) {
        rest = bytes[...]
        self.chunkBytes = max(1, chunkBytes)
    }

    package func read() throws(BatchFileError) -> [UInt8] {
        let chunk = Array(rest.prefix(chunkBytes))
        rest = rest.dropFirst(chunkBytes)
        return chunk
    }
}

/// Passes bytes on and computes their SHA-256, by which the same batch is recognised, even from standard input.
package final class DigestingByteSource: BatchByteSource {
    private let source: any BatchByteSource
    private var hasher = SHA256()

    package init(_ source: any BatchByteSource) {
        self.source = source
    }

    package func read() throws(BatchFileError) -> [UInt8] {
        let chunk = try source.read()
        hasher.update(chunk)
        return chunk
    }

    /// The digest of what was read so far, as 64 hexadecimal digits.
    package var hexadecimalDigest: String { hasher.hexadecimalDigest() }
}
