import CZlib

@testable import Receiver

/// RFC 1952 by hand around one call of zlib for the bare deflate data: header, checksum, length, members in a row and
/// padding are read by nobody else's rules. The whole input at once.
enum SlowGzip {
    enum Text: Equatable {
        case whole([UInt8])
        case truncated
        case damaged
    }

    private struct Fault: Error {
        let text: Text
    }

    static func text(_ input: [UInt8]) -> Text {
        guard input.starts(with: [0x1F, 0x8B]) else { return .whole(input) }
        var text: [UInt8] = []
        var place = 0
        do {
            repeat {
                guard input[place...].starts(with: [0x1F, 0x8B]) else { return .damaged }
                text += try member(input, &place)
                while place < input.count, input[place] == 0 { place += 1 }
            } while place < input.count
            return .whole(text)
        } catch let fault as Fault {
            return fault.text
        } catch {
            return .damaged
        }
    }

    private static func member(_ input: [UInt8], _ place: inout Int) throws -> [UInt8] {
        try skipHeader(input, &place)
        let (text, used) = try inflated(Array(input[place...]))
        place += used
        let checksum = try number(input, &place, bytes: 4)
        guard checksum == UInt32(truncatingIfNeeded: crc(text)) else { throw Fault(text: .damaged) }
        let length = try number(input, &place, bytes: 4)
        guard length == UInt32(truncatingIfNeeded: text.count) else { throw Fault(text: .damaged) }
        return text
    }

    private static func skipHeader(_ input: [UInt8], _ place: inout Int) throws {
        let start = place
        place += 2
        let method = try number(input, &place, bytes: 2)
        let flags = method >> 8
        guard method & 0xFF == 8, flags & 0xE0 == 0 else { throw Fault(text: .damaged) }
        // Time, extra flags, system.
        _ = try number(input, &place, bytes: 4)
        _ = try number(input, &place, bytes: 2)
        if flags & 4 != 0 {
            let length = try number(input, &place, bytes: 2)
            for _ in 0..<length { _ = try number(input, &place, bytes: 1) }
        }
        // Name and comment end in a zero byte.
        for flag: UInt32 in [8, 16] where flags & flag != 0 {
            while try number(input, &place, bytes: 1) != 0 {}
        }
        if flags & 2 != 0 {
            let sum = UInt32(truncatingIfNeeded: crc(Array(input[start..<place]))) & 0xFFFF
            guard try number(input, &place, bytes: 2) == sum else { throw Fault(text: .damaged) }
        }
    }

    private static func number(
        _ input: [UInt8], _ place: inout Int, bytes: Int
    ) throws -> UInt32 {
        guard input.count - place >= bytes else { throw Fault(text: .truncated) }
        defer { place += bytes }
        return input[place..<(place + bytes)].reversed().reduce(0) { $0 << 8 | UInt32($1) }
    }

    /// Bit by bit, without a table.
    private static func crc(_ bytes: [UInt8]) -> UInt {
        var sum: UInt32 = 0xFFFF_FFFF
        for byte in bytes {
            sum ^= UInt32(byte)
            for _ in 0..<8 { sum = sum & 1 == 1 ? sum >> 1 ^ 0xEDB8_8320 : sum >> 1 }
        }
        return UInt(~sum)
    }

    /// One call, with room for everything: deflate makes no more than 1,032 bytes of one.
    private static func inflated(_ data: [UInt8]) throws -> (text: [UInt8], used: Int) {
        var stream = z_stream()
        guard
            inflateInit2_(&stream, -15, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK
        else { violated("zlib does not open") }
        defer { inflateEnd(&stream) }
        var data = data
        var code = Z_OK
        let text = data.withUnsafeMutableBufferPointer { source in
            [UInt8](unsafeUninitializedCapacity: source.count * 1032 + 512) { target, used in
                stream.next_in = source.baseAddress
                stream.avail_in = UInt32(clamping: source.count)
                stream.next_out = target.baseAddress
                stream.avail_out = UInt32(clamping: target.count)
                code = inflate(&stream, Z_FINISH)
                used = target.count - Int(stream.avail_out)
            }
        }
        switch code {
        case Z_STREAM_END: return (text, data.count - Int(stream.avail_in))
        case Z_BUF_ERROR, Z_OK: throw Fault(text: .truncated)
        default: throw Fault(text: .damaged)
        }
    }
}

/// What `ingest` reads: plain bytes, or gzip.
enum GzipTarget: FuzzTarget {
    static let name = "gzip"
    static let words = ["\u{1F}", "\u{8}", "\u{0}\u{0}\u{0}\u{0}", "\n", "PK"]
    private static let texts = ["", "a\n", "{\"signedPayload\":\"a.b.c\"}\n"].map { [UInt8]($0) }
    static let seeds: [[UInt8]] = {
        let long = [UInt8](repeating: 0x61, count: 70_000)
        let members = texts.map { gzip($0) }
        // With a name, an extra field, a comment and a checksum of the header.
        let dressed =
            [0x1F, 0x8B, 8, 0x1C, 0, 0, 0, 0, 0, 3, 2, 0, 1, 2, 0x6E, 0, 0x63, 0]
            + gzip(texts[1]).dropFirst(10)
        return texts + members + [
            members[1] + members[2], members[1] + [0, 0, 0], members[1] + members[0] + [0],
            gzip(long), dressed, Array(members[2].dropLast()), Array(members[1].prefix(5)),
            [0x1F], [0x1F, 0x8B],
        ]
    }()

    static func check(_ input: [UInt8]) {
        var cuts = Cuts(input)
        let whole = read([input[...]])
        let cut = read(cuts.pieces(input))
        let slow = SlowGzip.text(input)
        require(
            whole.end == cut.end, "\(cut.end) where the input comes in pieces, else \(whole.end)")
        switch slow {
        case .whole(let text):
            require(whole.end == .whole, "\(whole.end) for us alone")
            require(whole.text == text && cut.text == text, "the text differs")
        case .truncated:
            require(whole.end == .truncated, "truncated, and for us \(whole.end)")
            require(whole.text == cut.text, "what is read before the end depends on the pieces")
        case .damaged:
            require(whole.end == .damaged, "damaged, and for us \(whole.end)")
            let shorter = min(whole.text.count, cut.text.count)
            require(
                whole.text.prefix(shorter) == cut.text.prefix(shorter),
                "what is read before the damage depends on the pieces")
        }
        // What was written comes back, whatever it is.
        if input.count <= 1024 {
            let back = read(cuts.pieces(gzip(input)))
            require(back.end == .whole && back.text == input, "what was written does not come back")
        }
    }

    private enum End: Equatable { case whole, truncated, damaged }

    private static func read(_ pieces: [ArraySlice<UInt8>]) -> (text: [UInt8], end: End) {
        var rest = pieces[...]
        let chunks = GzipChunks { rest.popFirst().map { Array($0) } }
        var text: [UInt8] = []
        do {
            while let chunk = try chunks.next() {
                require(
                    !chunk.isEmpty && chunk.count <= 64 << 10, "a chunk of \(chunk.count) bytes")
                text += chunk
            }
            return (text, .whole)
        } catch let fault as GzipFault {
            switch fault {
            case .truncated: return (text, .truncated)
            case .damaged: return (text, .damaged)
            case .outOfMemory: violated("out of memory")
            }
        } catch {
            violated("another error: \(error)")
        }
    }

    private static func gzip(_ bytes: [UInt8]) -> [UInt8] {
        var stream = z_stream()
        let code = deflateInit2_(
            &stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
            Int32(MemoryLayout<z_stream>.size))
        require(code == Z_OK, "zlib does not open")
        defer { deflateEnd(&stream) }
        var bytes = bytes
        return bytes.withUnsafeMutableBufferPointer { source in
            [UInt8](unsafeUninitializedCapacity: source.count + 1024) { target, used in
                stream.next_in = source.baseAddress
                stream.avail_in = UInt32(clamping: source.count)
                stream.next_out = target.baseAddress
                stream.avail_out = UInt32(clamping: target.count)
                require(deflate(&stream, Z_FINISH) == Z_STREAM_END, "zlib does not compress")
                used = target.count - Int(stream.avail_out)
            }
        }
    }
}
