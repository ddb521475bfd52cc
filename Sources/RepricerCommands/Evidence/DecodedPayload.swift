import AppStore

/// A signed payload for a person: JSON in which each nested JWS is replaced by what it says.
///
/// Numbers and texts stand as they were signed; nothing is parsed and written anew.
struct DecodedPayload {
    private let contents: PackedPayload.Contents

    /// nil for what is no JWS.
    init?(of signedPayload: String) {
        // A text that cannot be packed has a shape that nobody signs.
        guard let packed = PayloadPacker().pack(signedPayload) else { return nil }
        let payload = PackedPayload(bytes: packed.bytes, headers: packed.headers.map(\.text))
        // Packed just now, so it is not damaged.
        guard let contents = try? payload.contents() else { return nil }
        self.contents = contents
    }

    var isJSON: Bool { contents.isJSON }

    func text(isIndented: Bool) -> String {
        var writer = JSONLayout(isIndented: isIndented)
        writer.append(contents.payload) { mark in
            contents.isAmbiguous ? nil : contents.payload(markedBy: mark)
        }
        return writer.text
    }
}

/// Lays tokens out on lines; what is no JSON comes out as it is.
private struct JSONLayout {
    private let isIndented: Bool
    private var out: [UInt8] = []
    private var depth = 0

    init(isIndented: Bool) { self.isIndented = isIndented }

    var text: String { String(decoding: out, as: UTF8.self) }

    mutating func append(_ json: [UInt8], replacing replacement: (String) -> [UInt8]?) {
        var index = 0
        while index < json.count {
            let byte = json[index]
            switch byte {
            case UInt8(ascii: "\""):
                let end = Self.endOfText(json, from: index)
                let text = json[(index + 1)..<max(index + 1, end - 1)]
                if let inner = replacement(String(decoding: text, as: UTF8.self)) {
                    append(inner) { _ in nil }
                } else {
                    out += json[index..<end]
                }
                index = end
                continue
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                out.append(byte)
                if let close = Self.closing(json, after: index) {
                    out.append(json[close])
                    index = close
                } else {
                    depth += 1
                    newLine()
                }
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                depth = max(0, depth - 1)
                newLine()
                out.append(byte)
            case UInt8(ascii: ","):
                out.append(byte)
                newLine()
            case UInt8(ascii: ":"): out += (isIndented ? ": " : ":").utf8
            case 0x20, 0x09, 0x0A, 0x0D: break
            default: out.append(byte)
            }
            index += 1
        }
    }

    private mutating func newLine() {
        guard isIndented else { return }
        out.append(0x0A)
        out += [UInt8](repeating: 0x20, count: min(depth, 100) * 2)
    }

    /// After the closing quote, or the end.
    private static func endOfText(_ json: [UInt8], from start: Int) -> Int {
        var index = start + 1
        while index < json.count {
            if json[index] == UInt8(ascii: "\\") {
                index += 2
            } else if json[index] == UInt8(ascii: "\"") {
                return index + 1
            } else {
                index += 1
            }
        }
        return json.count
    }

    /// The bracket that closes an empty object or array at once.
    private static func closing(_ json: [UInt8], after start: Int) -> Int? {
        let next = json[(start + 1)...].firstIndex { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
        guard let next, [UInt8(ascii: "}"), UInt8(ascii: "]")].contains(json[next]) else {
            return nil
        }
        return next
    }
}
