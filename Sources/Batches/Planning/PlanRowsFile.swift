import JSON

/// Reads the output of `plan --rows`: one JSON object a line, as this program writes it.
package struct PlanRowsFile {
    package struct Malformed: Error {}

    package struct Member: Equatable, Sendable {
        package var name: String
        /// The value as JSON.
        package var value: String
    }

    package struct Row: Sendable {
        /// The line of the batch file.
        package var line: Int
        /// The object as it stands in the file.
        package var bytes: [UInt8]
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

    /// The members of the object, in their order.
    package static func members(_ bytes: [UInt8]) throws(Malformed) -> [Member] {
        guard let row = JSONDocument.read(bytes) else { throw Malformed() }
        var members: [Member] = []
        row.forEachMember { members.append(Member(name: $0.text ?? "", value: $1.raw)) }
        return members
    }
}
