import Glibc

/// A batch that can be read more than once. A file is opened again. A pipe is kept in a temporary file that nobody
/// else sees and that ends with the process.
package final class BatchInput: Sendable {
    private enum Origin: Sendable {
        case file
        case spool(Int32)
        case memory([UInt8])
    }

    /// The path as it was given; `-` is standard input.
    package let path: String
    private let origin: Origin

    /// Opens a path, or reads standard input to its end for `-`.
    package init(path: String) throws(BatchFileError) {
        self.path = path
        var status = stat()
        if path != "-", stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG {
            origin = .file
        } else {
            origin = .spool(try BatchInput.spool(try FileByteSource(path: path), path))
        }
    }

    /// A batch of bytes in memory; `path` is their name in messages.
    package init(_ bytes: [UInt8], path: String) {
        self.path = path
        origin = .memory(bytes)
    }

    deinit {
        if case .spool(let descriptor) = origin { close(descriptor) }
    }

    /// The bytes from the beginning.
    package func open() throws(BatchFileError) -> any BatchByteSource {
        switch origin {
        case .file: try FileByteSource(path: path)
        // The file is opened again, so that the reader has its own position in it.
        case .spool(let descriptor): try FileByteSource(path: "/proc/self/fd/\(descriptor)")
        case .memory(let bytes): MemoryByteSource(bytes)
        }
    }

    private static func spool(
        _ source: FileByteSource, _ path: String
    ) throws(BatchFileError) -> Int32 {
        let folder = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var name = Array("\(folder)/repricer-XXXXXX".utf8CString)
        let descriptor = mkstemp(&name)
        guard descriptor >= 0 else { throw failure(folder) }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
        unlink(name)
        while true {
            let bytes: [UInt8]
            do throws(BatchFileError) { bytes = try source.read() } catch {
                close(descriptor)
                throw error
            }
            if bytes.isEmpty { return descriptor }
            var done = 0
            while done < bytes.count {
                let count = bytes.withUnsafeBytes {
                    write(descriptor, $0.baseAddress?.advanced(by: done), $0.count - done)
                }
                if count < 0, errno == EINTR { continue }
                guard count > 0 else {
                    defer { close(descriptor) }
                    throw failure(folder)
                }
                done += count
            }
        }
    }

    private static func failure(_ folder: String) -> BatchFileError {
        BatchFileError(
            code: .unreadableFile, file: folder, line: nil,
            message: String(cString: strerror(errno)),
            remedy: "standard input is kept there while it is read; set TMPDIR to another folder")
    }
}
