import Foundation
import Testing

@testable import Notifications

@Suite struct FileChunksTests {
    @Test func next_whenFileIsLargerThanAChunk_givesEveryByteInOrder() throws {
        let path = FileManager.default.temporaryDirectory
            .appendingPathComponent("chunks-\(UUID().uuidString)").path
        let content = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        #expect(FileManager.default.createFile(atPath: path, contents: Data(content)))
        defer { try? FileManager.default.removeItem(atPath: path) }

        let chunks = try FileChunks(path: path)
        var read: [UInt8] = []
        while let chunk = try chunks.next() { read += chunk }

        #expect(read == content)
    }

    @Test func init_whenFileIsMissing_saysWhich() {
        let error = #expect(throws: FileChunks.Failure.self) { try FileChunks(path: "/no/file") }

        #expect(
            error?.description == "/no/file: unreadable_file: No such file or directory; "
                + "check the path and its permissions")
    }

    @Test func next_whenItIsCompressed_saysWhatToDo() throws {
        let pipe = Pipe()
        let path = "/dev/fd/\(pipe.fileHandleForReading.fileDescriptor)"
        let chunks = try FileChunks(path: path)
        let writer = pipe.fileHandleForWriting
        try writer.write(contentsOf: [0x1F])
        // The second byte comes by itself.
        Thread { try? writer.write(contentsOf: [0x8B]) }.start()

        let error = #expect(throws: FileChunks.Failure.self) { try chunks.next() }

        #expect(
            error?.description == "\(path): compressed_file: it is compressed by gzip; "
                + "run zcat \(path), and pipe it in as -")
    }

    @Test(arguments: [[], [0x1F], [0x1F, 0x8C], [0x8B, 0x1F]] as [[UInt8]])
    func next_whenItOnlyBeginsAlike_givesEveryByte(_ content: [UInt8]) throws {
        let path = NSTemporaryDirectory() + UUID().uuidString
        #expect(FileManager.default.createFile(atPath: path, contents: Data(content)))
        defer { try? FileManager.default.removeItem(atPath: path) }

        let chunks = try FileChunks(path: path)

        #expect(try chunks.next() == (content.isEmpty ? nil : content))
        #expect(try chunks.next() == nil)
    }

    @Test func next_whenItIsAFolder_throws() throws {
        let chunks = try FileChunks(path: "/")

        #expect(throws: FileChunks.Failure.self) { try chunks.next() }
    }
}
