/// PostgreSQL's text form of a one-dimensional array: `{a,"b \"c\"",NULL}`.
package enum ArrayText {
    /// The elements, with nil for NULL; nil when the text is not a one-dimensional array.
    package static func parse(_ text: String) -> [String?]? {
        let bytes = Array(text.utf8)
        guard bytes.count >= 2, bytes.first == UInt8(ascii: "{"), bytes.last == UInt8(ascii: "}")
        else { return nil }
        if bytes.count == 2 { return [] }
        var elements: [String?] = []
        var position = 1
        let end = bytes.count - 1
        while true {
            guard let (element, next) = parseElement(bytes, from: position, end: end) else {
                return nil
            }
            elements.append(element)
            if next == end { return elements }
            guard bytes[next] == UInt8(ascii: ",") else { return nil }
            position = next + 1
        }
    }

    /// The array's text with every element quoted, so that no element is taken for NULL.
    package static func format(_ elements: [String]) -> String {
        var text = "{"
        for (index, element) in elements.enumerated() {
            text += index == 0 ? "\"" : ",\""
            for character in element.unicodeScalars {
                if character == "\"" || character == "\\" { text += "\\" }
                text.unicodeScalars.append(character)
            }
            text += "\""
        }
        return text + "}"
    }

    private static func parseElement(
        _ bytes: [UInt8], from start: Int, end: Int
    ) -> (element: String?, next: Int)? {
        guard start < end else { return nil }
        guard bytes[start] == UInt8(ascii: "\"") else {
            let stop = bytes[start..<end].firstIndex(of: UInt8(ascii: ",")) ?? end
            let word = bytes[start..<stop]
            guard !word.isEmpty, !word.contains(UInt8(ascii: "{")) else { return nil }
            let text = String(decoding: word, as: UTF8.self)
            return (text.uppercased() == "NULL" ? nil : text, stop)
        }
        var content: [UInt8] = []
        var position = start + 1
        while position < end {
            let byte = bytes[position]
            if byte == UInt8(ascii: "\"") {
                return (String(decoding: content, as: UTF8.self), position + 1)
            }
            if byte == UInt8(ascii: "\\") { position += 1 }
            guard position < end else { return nil }
            content.append(bytes[position])
            position += 1
        }
        return nil
    }
}
