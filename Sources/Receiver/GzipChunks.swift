import CZlib

/// Why compressed input cannot be read on.
package enum GzipFault: Error, Hashable, Sendable, CustomStringConvertible {
    /// The input ends inside a member.
    case truncated
    /// Not what gzip writes, or its checksum is wrong.
    case damaged(String)
    case outOfMemory

    package var description: String {
        switch self {
        case .truncated:
            "truncated_gzip: the compressed data ends early; copy the file again"
        case .damaged(let why):
            "damaged_gzip: \(why); copy the file again"
        case .outOfMemory: "out_of_memory: zlib cannot allocate; try again"
        }
    }
}

/// Passes plain bytes on and inflates gzip (RFC 1952), told apart by the first two bytes, whatever
/// the file is called. Members that follow each other count as one text, as gzip itself has it.
///
/// A chunk never exceeds 64 KiB, so what a small file inflates to costs time and no memory.
package final class GzipChunks {
    private static let chunkBytes = 64 << 10
    private static let magic: [UInt8] = [0x1F, 0x8B]

    private enum State {
        case unknown, plain, member, betweenMembers
    }

    private let nextInput: () throws -> [UInt8]?
    private var state = State.unknown
    private var input: [UInt8] = []
    private var position = 0
    private var inputHasEnded = false
    private var stream = z_stream()
    private var isOpen = false
    /// zlib may hold back more of the text than fitted the last chunk.
    private var mayHoldMore = false

    /// `nextInput` gives bytes in any cut, nil at the end.
    package init(_ nextInput: @escaping () throws -> [UInt8]?) {
        self.nextInput = nextInput
    }

    deinit {
        if isOpen { inflateEnd(&stream) }
    }

    /// The next bytes of the text; nil at its end. Throws `GzipFault`, and what the input throws.
    package func next() throws -> [UInt8]? {
        while true {
            switch state {
            case .unknown:
                let beginsAsGzip = try hasAhead(Self.magic)
                if beginsAsGzip { try open() }
                state = beginsAsGzip ? .member : .plain
            case .plain:
                return try takeInput()
            case .member:
                guard try mayHoldMore || fill() else { throw GzipFault.truncated }
                let chunk = try inflateSome()
                if !chunk.isEmpty { return chunk }
            case .betweenMembers:
                try skipPadding()
                guard try fill() else { return nil }
                guard try hasAhead(Self.magic) else {
                    throw GzipFault.damaged("something else follows the compressed data")
                }
                guard inflateReset(&stream) == Z_OK else { throw GzipFault.outOfMemory }
                state = .member
            }
        }
    }

    private func takeInput() throws -> [UInt8]? {
        guard try fill() else { return nil }
        defer { (input, position) = ([], 0) }
        return position == 0 ? input : Array(input[position...])
    }

    /// Whether there is input left; reads on when what was read is used up.
    private func fill() throws -> Bool {
        while position == input.count, !inputHasEnded {
            if let more = try nextInput() {
                (input, position) = (more, 0)
            } else {
                inputHasEnded = true
            }
        }
        return position < input.count
    }

    /// Whether exactly these bytes come next. A pipe may hand them out one by one.
    private func hasAhead(_ bytes: [UInt8]) throws -> Bool {
        while input.count - position < bytes.count, !inputHasEnded {
            if let more = try nextInput() {
                input = Array(input[position...]) + more
                position = 0
            } else {
                inputHasEnded = true
            }
        }
        return input[position...].starts(with: bytes)
    }

    /// Archives on tape end with zero bytes; gzip passes over them, and so do we.
    private func skipPadding() throws {
        while try fill(), input[position] == 0 { position += 1 }
    }

    private func open() throws(GzipFault) {
        // 15: the largest window; 16: a gzip header and its checksum, and nothing else.
        let code = inflateInit2_(&stream, 15 + 16, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        guard code == Z_OK else { throw .outOfMemory }
        isOpen = true
    }

    private func inflateSome() throws(GzipFault) -> [UInt8] {
        var code = Z_OK
        let before = position
        let chunk = input.withUnsafeMutableBufferPointer { source in
            [UInt8](unsafeUninitializedCapacity: Self.chunkBytes) { target, used in
                stream.next_in = source.baseAddress.map { $0 + position }
                stream.avail_in = UInt32(clamping: source.count - position)
                stream.next_out = target.baseAddress
                stream.avail_out = UInt32(clamping: target.count)
                code = inflate(&stream, Z_NO_FLUSH)
                position = source.count - Int(stream.avail_in)
                used = target.count - Int(stream.avail_out)
            }
        }
        let hadHeldBack = mayHoldMore
        mayHoldMore = chunk.count == Self.chunkBytes
        switch code {
        case Z_STREAM_END:
            mayHoldMore = false
            state = .betweenMembers
        case Z_OK: break
        case Z_BUF_ERROR where hadHeldBack || position > before || !chunk.isEmpty: break
        case Z_MEM_ERROR: throw .outOfMemory
        default:
            throw .damaged(stream.msg.map { String(cString: $0) } ?? "it does not inflate")
        }
        return chunk
    }
}
