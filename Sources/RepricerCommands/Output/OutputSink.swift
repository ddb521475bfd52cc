import Glibc

/// Where a stream of bytes goes: a file descriptor, or the memory of a test.
package struct OutputSink: Sendable {
    private let writeBytes: @Sendable ([UInt8]) throws(OutputError) -> Void

    package init(_ write: @escaping @Sendable ([UInt8]) throws(OutputError) -> Void) {
        writeBytes = write
    }

    /// Writes all of `text` before it returns.
    package func write(_ text: String) throws(OutputError) {
        guard !text.isEmpty else { return }
        try writeBytes(Array(text.utf8))
    }

    /// The same for bytes.
    func write(_ bytes: [UInt8]) throws(OutputError) {
        try writeBytes(bytes)
    }

    /// Writes to an open file descriptor, which stays the caller's.
    package static func descriptor(_ descriptor: Int32) -> OutputSink {
        OutputSink { bytes throws(OutputError) in
            var done = 0
            while done < bytes.count {
                let count = bytes.withUnsafeBytes { buffer in
                    Glibc.write(
                        descriptor, buffer.baseAddress?.advanced(by: done), buffer.count - done)
                }
                if count < 0 && errno == EINTR { continue }
                guard count > 0 else { throw OutputError(errorNumber: errno) }
                done += count
            }
        }
    }
}

/// A stream that takes no more bytes.
package struct OutputError: Error, Equatable, CustomStringConvertible {
    package let errorNumber: Int32

    /// Whether the reader has closed the pipe, as `head` does. That is no error, and there is nobody to tell.
    package var isClosedPipe: Bool { errorNumber == EPIPE }

    package var description: String {
        "the output cannot be written: \(String(cString: strerror(errorNumber)))"
    }
}
