import AppStore
import JSON

/// A signed payload for a person: JSON in which each nested JWS is replaced by its content.
///
/// Numbers and texts stay as they were signed; nothing is parsed and rewritten.
struct DecodedPayload {
    private let contents: PackedPayload.Contents

    /// nil where the text is not a JWS.
    init?(of signedPayload: String) {
        // A text that cannot be packed is not a payload that anybody signs.
        guard let packed = PayloadPacker().pack(signedPayload) else { return nil }
        let payload = PackedPayload(bytes: packed.bytes, headers: packed.headers.map(\.text))
        // It was packed just now, so it is not damaged.
        guard let contents = try? payload.contents() else { return nil }
        self.contents = contents
    }

    var isJSON: Bool { contents.isJSON }

    func text(isIndented: Bool) -> String {
        text(of: contents.payload, isIndented, depth: 0) { mark in
            contents.isAmbiguous ? nil : contents.payload(markedBy: mark)
        }
    }

    /// A text that is not JSON is returned as it is.
    private func text(
        of json: [UInt8], _ isIndented: Bool, depth: Int, replacing: (String) -> [UInt8]?
    ) -> String {
        guard let node = JSONDocument.read(json) else {
            return String(decoding: json, as: UTF8.self)
        }
        return text(of: node, isIndented, depth: depth, replacing)
    }

    private func text(
        of node: JSONNode, _ isIndented: Bool, depth: Int, _ replacing: (String) -> [UInt8]?
    ) -> String {
        func lines(_ open: String, _ parts: [String], _ close: String) -> String {
            guard !parts.isEmpty else { return open + close }
            let line = { isIndented ? "\n" + String(repeating: "  ", count: min($0, 100)) : "" }
            return open + line(depth + 1) + parts.joined(separator: "," + line(depth + 1))
                + line(depth) + close
        }
        switch node.kind {
        case .null, .boolean, .number: return node.raw
        case .text:
            guard let inner = replacing(String(node.raw.dropFirst().dropLast())) else {
                return node.raw
            }
            return text(of: inner, isIndented, depth: depth) { _ in nil }
        case .array:
            let parts = (node.elements ?? []).map {
                text(of: $0, isIndented, depth: depth + 1, replacing)
            }
            return lines("[", parts, "]")
        case .object:
            var parts: [String] = []
            node.forEachMember { name, value in
                let shown = text(of: value, isIndented, depth: depth + 1, replacing)
                parts.append(name.raw + (isIndented ? ": " : ":") + shown)
            }
            return lines("{", parts, "}")
        }
    }
}
