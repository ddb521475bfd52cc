/// Reads what `plan --rows` wrote: one JSON object a line, as this program writes them.
package struct PlanRowsFile {
    package struct Malformed: Error {}

    package struct Member: Equatable, Sendable {
        package var name: String
        /// As JSON, without blanks.
        package var value: String
    }

    package struct Row: Sendable {
        /// The line of the batch file.
        package var line: Int
        /// The object as it stands.
        package var bytes: [UInt8]
        package var members: [Member] { PlanRowsFile.members(bytes) }
    }

    private var scanner: LineScanner

    package init(_ source: any BatchByteSource) {
        scanner = LineScanner(source)
    }

    /// The next row; nil at the end.
    package mutating func next() throws -> Row? {
        guard let line = try scanner.next() else { return nil }
        let beginning = Array(#"{"line":"#.utf8)
        let digits = line.bytes.dropFirst(beginning.count).prefix { (0x30...0x39).contains($0) }
        guard !line.isTooLong, line.bytes.starts(with: beginning),
            let number = Int(String(decoding: digits, as: UTF8.self))
        else { throw Malformed() }
        return Row(line: number, bytes: line.bytes)
    }

    /// The members of the outermost object, in their order.
    package static func members(_ bytes: [UInt8]) -> [Member] {
        var members: [Member] = []
        var name: [UInt8] = []
        var value: [UInt8] = []
        var (depth, isInString, isEscaped, isInName) = (0, false, false, true)
        for byte in bytes {
            if !isInString, byte == 0x20 { continue }
            if isInString {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                }
            } else {
                switch byte {
                case UInt8(ascii: "\""): isInString = true
                case UInt8(ascii: "{"), UInt8(ascii: "["):
                    depth += 1
                    if depth == 1 { continue }
                case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
                case UInt8(ascii: ":") where depth == 1 && isInName:
                    isInName = false
                    continue
                default: break
                }
                if depth == 0 || (depth == 1 && byte == UInt8(ascii: ",")) {
                    members.append(
                        Member(
                            name: String(decoding: name.dropFirst().dropLast(), as: UTF8.self),
                            value: String(decoding: value, as: UTF8.self)))
                    (name, value, isInName) = ([], [], true)
                    continue
                }
            }
            if isInName { name.append(byte) } else { value.append(byte) }
        }
        return members
    }
}
