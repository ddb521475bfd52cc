import Glibc

/// The identity of a regular file in the system, because two paths can lead to the same one.
private struct FileIdentity: Equatable {
    let device: dev_t
    let inode: ino_t

    /// nil for a file that does not exist yet, and for pipes and terminals, which several may share.
    init?(path: String) {
        var status = stat()
        guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
        device = status.st_dev
        inode = status.st_ino
    }

    static func isSame(_ left: String, _ right: String) -> Bool {
        if left == "-" || right == "-" { return left == right }
        guard let left = FileIdentity(path: left) else { return false }
        return left == FileIdentity(path: right)
    }
}

/// A file that a command writes: a path, or `-` for standard output. It is written in pieces, so that a plan of any
/// size needs little memory.
final class OutputFile {
    private static let bufferBytes = 1 << 16

    private let path: String
    private let descriptor: Int32
    private let sink: OutputSink
    private var buffer = ""

    /// Opens and empties the file. Throws where it is the same file as one of `others`, however their paths are
    /// written: it would erase an input that is still to be read, or two outputs would overwrite each other.
    init(path: String, besides others: [String] = [], dependencies: Dependencies) throws {
        self.path = path
        if let other = others.first(where: { FileIdentity.isSame(path, $0) }) {
            throw UsageError(
                other == path
                    ? "\(quoted(path)) is named twice; give the output a file of its own"
                    : "\(quoted(path)) and \(quoted(other)) are the same file; give the output a file of its own"
            )
        }
        guard path != "-" else {
            descriptor = -1
            sink = dependencies.output
            return
        }
        descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
        sink = .descriptor(descriptor)
        guard descriptor >= 0 else {
            throw CommandFailure(
                .failed, "\(path) cannot be written: \(String(cString: strerror(errno)))")
        }
    }

    /// Creates a new file that only its owner may read; throws where the file exists.
    init(new path: String) throws {
        self.path = path
        descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        sink = .descriptor(descriptor)
        guard descriptor >= 0 else {
            throw CommandFailure(
                .failed, "\(path) cannot be written: \(String(cString: strerror(errno)))")
        }
    }

    deinit {
        if descriptor >= 0 { close(descriptor) }
    }

    func write(_ text: String) throws {
        buffer += text
        if buffer.utf8.count >= Self.bufferBytes { try flush() }
    }

    /// Returns when the file is on the disk.
    func keep() throws {
        try flush()
        guard fsync(descriptor) == 0 else {
            throw CommandFailure(
                .failed, "\(path) cannot be kept: \(String(cString: strerror(errno)))")
        }
    }

    /// Writes what is buffered. It must be called at the end.
    func flush() throws {
        do throws(OutputError) {
            try sink.write(buffer)
        } catch {
            guard path != "-" else { throw error }
            throw CommandFailure(.failed, "\(path): \(error)")
        }
        buffer = ""
    }
}
