import Glibc

/// A file that a command writes: a path, or `-` for standard output. Written in pieces, so that a plan of any
/// size needs little memory.
final class OutputFile {
    private static let bufferBytes = 1 << 16

    private let path: String
    private let descriptor: Int32
    private let sink: OutputSink
    private var buffer = ""

    init(path: String, world: World) throws(CommandFailure) {
        self.path = path
        guard path != "-" else {
            descriptor = -1
            sink = world.output
            return
        }
        descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
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

    /// Must be called at the end: what is still buffered would be lost otherwise.
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
