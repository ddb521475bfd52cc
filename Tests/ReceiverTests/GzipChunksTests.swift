import Foundation
import TestSupport
import Testing

@testable import Receiver

@Suite(.ownThread) struct GzipChunksTests {
    /// Compressed by gzip itself.
    static func gzip(_ bytes: [UInt8]) throws -> [UInt8] {
        let path = NSTemporaryDirectory() + UUID().uuidString
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        try Program.command(["gzip", "-n", path])
        defer { unlink(path + ".gz") }
        return Array(try Data(contentsOf: URL(fileURLWithPath: path + ".gz")))
    }

    static func source(_ bytes: [UInt8], chunk: Int) -> () throws -> [UInt8]? {
        var rest = bytes[...]
        return {
            guard !rest.isEmpty else { return nil }
            defer { rest = rest.dropFirst(chunk) }
            return Array(rest.prefix(chunk))
        }
    }

    static func inflated(_ bytes: [UInt8], chunk: Int) throws -> [UInt8] {
        let chunks = GzipChunks(source(bytes, chunk: chunk))
        var text: [UInt8] = []
        while let more = try chunks.next() {
            #expect(!more.isEmpty && more.count <= 64 << 10)
            text += more
        }
        return text
    }

    static let text = Array((0..<40_000).map { "line \($0 * $0)\n" }.joined().utf8)

    @Test(arguments: [1, 7, 65_536])
    func next_ofGzipInAnyCut_givesTheText(_ chunk: Int) throws {
        #expect(try Self.inflated(Self.gzip(Self.text), chunk: chunk) == Self.text)
    }

    @Test(arguments: [1, 7, 65_536])
    func next_ofPlainText_givesItUnchanged(_ chunk: Int) throws {
        let plain = Array(Self.text.prefix(70_000))

        #expect(try Self.inflated(plain, chunk: chunk) == plain)
        #expect(try Self.inflated([], chunk: chunk) == [])
        #expect(try Self.inflated([0x1F], chunk: chunk) == [0x1F])
        #expect(try Self.inflated([0x1F, 0x1F, 0x8B], chunk: chunk) == [0x1F, 0x1F, 0x8B])
    }

    @Test(arguments: [1, 65_536])
    func next_ofMembersInARow_givesOneText(_ chunk: Int) throws {
        let one = Array("first\n".utf8)
        let padding = [UInt8](repeating: 0, count: 512)
        let members = try Self.gzip(one) + Self.gzip([]) + Self.gzip(Self.text) + padding

        #expect(try Self.inflated(members, chunk: chunk) == one + Self.text)
    }

    @Test func next_ofEveryTruncation_saysSo() throws {
        let whole = try Self.gzip(Array("a line\nanother line\n".utf8))

        for length in 2..<whole.count {
            #expect(throws: GzipFault.truncated, "\(length) bytes") {
                _ = try Self.inflated(Array(whole.prefix(length)), chunk: 65_536)
            }
        }
    }

    @Test func next_whenAByteIsWrong_neverGivesAnotherText() throws {
        let whole = try Self.gzip(Array("a line\nanother line\n".utf8))

        // From the first byte of compressed data to the checksum: the header's time and system say nothing.
        for index in 10..<whole.count {
            var damaged = whole
            damaged[index] ^= 0x10
            #expect(throws: GzipFault.self, "byte \(index)") {
                _ = try Self.inflated(damaged, chunk: 65_536)
            }
        }
    }

    @Test func next_whenSomethingElseFollows_isDamaged() throws {
        let bytes = try Self.gzip(Array("a line\n".utf8)) + Array("plain\n".utf8)

        #expect(throws: GzipFault.damaged("something else follows the compressed data")) {
            _ = try Self.inflated(bytes, chunk: 5)
        }
    }

    @Test func next_ofABomb_givesBoundedChunks() throws {
        let bomb = try Self.gzip([UInt8](repeating: 0x20, count: 64 << 20))
        let chunks = GzipChunks(Self.source(bomb, chunk: 65_536))

        #expect(bomb.count < 100_000)
        var total = 0
        while let chunk = try chunks.next() {
            #expect(chunk.count <= 64 << 10)
            total += chunk.count
        }
        #expect(total == 64 << 20)
    }
}
