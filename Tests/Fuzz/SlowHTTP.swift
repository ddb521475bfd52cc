/// HTTP/1.1 read a second time: from the whole input, byte by byte, without any state machine.
///
/// It shares no code with the parser. Where the two disagree about what a request is or where it
/// ends, one of them can be smuggled past.
struct SlowHTTP {
    struct Message: Equatable {
        var first = ""
        var second = ""
        /// The host and port of an absolute target.
        var authority: String?
        var minorVersion = 0
        var fields: [[String]] = []
        var body: [UInt8] = []
    }

    enum End: String {
        /// Nothing is left over.
        case clean
        /// A message has begun and is not complete.
        case incomplete
        case refused
    }

    enum Kind: Equatable {
        case request
        case response(toHead: Bool)
    }

    private enum Stop: Error { case incomplete, refused }

    static let startLineMax = 8 * 1024
    static let headMax = 16 * 1024
    static let fieldsMax = 100

    let kind: Kind
    let bodyMax: Int
    private var rest: ArraySlice<UInt8>
    private var headLeft = 0

    init(_ input: [UInt8], kind: Kind, bodyMax: Int = 1 << 20) {
        self.kind = kind
        self.bodyMax = bodyMax
        rest = input[...]
    }

    /// The messages and how the input ends; `isClosed` when nothing can follow it.
    mutating func messages(isClosed: Bool) -> ([Message], End) {
        var found: [Message] = []
        do {
            while let message = try message(isClosed) { found.append(message) }
            return (found, .clean)
        } catch Stop.incomplete {
            return (found, .incomplete)
        } catch {
            return (found, .refused)
        }
    }

    private mutating func message(_ isClosed: Bool) throws -> Message? {
        var empty = 0
        var interim = 0
        while true {
            guard let byte = rest.first else {
                if empty + interim > 0 { throw Stop.incomplete }
                return nil
            }
            guard Self.token.contains(byte) || byte == 13 || byte == 10 else { throw Stop.refused }
            let line = try line(max: Self.startLineMax)
            if line.isEmpty {
                empty += 1
                if empty + interim > 8 { throw Stop.refused }
                continue
            }
            var message = try startLine(line)
            headLeft = Self.headMax - line.count - 2
            message.fields = try fields(limit: Self.fieldsMax)
            let isInterim = kind != .request && message.second.hasPrefix("1")
            let length = try framing(message)
            if isInterim {
                interim += 1
                if empty + interim > 8 || message.second == "101" { throw Stop.refused }
                continue
            }
            message.body = try body(length, fields: message.fields.count, isClosed)
            return message
        }
    }

    // MARK: - Lines

    private mutating func line(max: Int) throws -> [UInt8] {
        var line: [UInt8] = []
        for byte in rest {
            if byte == 10 {
                guard line.count <= max, line.last == 13 else { throw Stop.refused }
                rest = rest.dropFirst(line.count + 1)
                line.removeLast()
                return line
            }
            line.append(byte)
            if line.count > max { throw Stop.refused }
        }
        throw Stop.incomplete
    }

    private mutating func headLine() throws -> [UInt8] {
        let line = try line(max: max(2, headLeft))
        headLeft -= line.count + 2
        return line
    }

    private func startLine(_ line: [UInt8]) throws -> Message {
        var message = Message()
        guard kind == .request else {
            guard line.count >= 12, line[8] == 32, line.count == 12 || line[12] == 32 else {
                throw Stop.refused
            }
            message.minorVersion = try minor(Array(line[..<8]))
            message.second = String(decoding: line[9..<12], as: UTF8.self)
            guard line[9..<12].allSatisfy(Self.digits.contains), (49...53).contains(line[9]),
                line.dropFirst(13).allSatisfy(Self.isText)
            else { throw Stop.refused }
            return message
        }
        let words = split(line, " ")
        guard words.count == 3 else { throw Stop.refused }
        message.first = String(decoding: words[0], as: UTF8.self)
        guard !words[0].isEmpty, words[0].allSatisfy(Self.token.contains) else {
            throw Stop.refused
        }
        (message.second, message.authority) = try target(words[1], message.first)
        message.minorVersion = try minor(words[2])
        return message
    }

    private func minor(_ word: [UInt8]) throws -> Int {
        let text = String(decoding: word, as: UTF8.self)
        guard text.utf8.count == 8, text.hasPrefix("HTTP/1."), let digit = word.last,
            Self.digits.contains(digit)
        else { throw Stop.refused }
        return Int(digit) - 48
    }

    private func target(_ word: [UInt8], _ method: String) throws -> (String, String?) {
        var path = word
        var authority: String?
        if word == [42] {
            guard method == "OPTIONS" else { throw Stop.refused }
            return ("*", nil)
        }
        if word.first != 47 {
            let text = String(decoding: word, as: UTF8.self).lowercased()
            let skipped = text.hasPrefix("http://") ? 7 : text.hasPrefix("https://") ? 8 : 0
            guard skipped > 0 else { throw Stop.refused }
            let host = word.dropFirst(skipped).prefix { $0 != 47 && $0 != 63 }
            authority = try Self.authority(Array(host))
            path = Array(word.dropFirst(skipped + host.count))
            if path.first != 47 { path.insert(47, at: 0) }
        }
        var position = 0
        while position < path.count {
            if path[position] == 37 {
                let digits = path[(position + 1)...].prefix(2)
                guard digits.count == 2, digits.allSatisfy(Self.hex.contains) else {
                    throw Stop.refused
                }
            } else if !Self.pathCharacters.contains(path[position]) {
                throw Stop.refused
            }
            position += 1
        }
        return (String(decoding: path, as: UTF8.self), authority)
    }

    private mutating func fields(limit: Int) throws -> [[String]] {
        var fields: [[String]] = []
        while true {
            let line = try headLine()
            if line.isEmpty { return fields }
            guard fields.count < limit else { throw Stop.refused }
            let parts = split(line, ":")
            guard parts.count >= 2, !parts[0].isEmpty, parts[0].allSatisfy(Self.token.contains)
            else { throw Stop.refused }
            var value = Array(line.dropFirst(parts[0].count + 1))
            while let first = value.first, first == 32 || first == 9 { value.removeFirst() }
            while let last = value.last, last == 32 || last == 9 { value.removeLast() }
            guard value.allSatisfy(Self.isText) else { throw Stop.refused }
            fields.append([
                String(decoding: parts[0], as: UTF8.self), String(decoding: value, as: UTF8.self),
            ])
        }
    }

    // MARK: - Framing

    private enum Length { case bytes(Int), chunks, untilClose }

    private func values(_ message: Message, _ name: String) -> [String] {
        message.fields.filter { $0[0].lowercased() == name }.map { $0[1] }
    }

    private func framing(_ message: Message) throws -> Length {
        let lengths = values(message, "content-length")
        let codings = values(message, "transfer-encoding")
        if kind == .request { try checkHost(message) }
        if !codings.isEmpty {
            guard lengths.isEmpty, codings.count == 1, message.minorVersion > 0,
                codings[0].lowercased() == "chunked"
            else { throw Stop.refused }
        }
        if !lengths.isEmpty {
            guard lengths.count == 1, !lengths[0].isEmpty,
                lengths[0].utf8.allSatisfy(Self.digits.contains)
            else { throw Stop.refused }
        }
        switch kind {
        case .request:
            let expectations = values(message, "expect").flatMap { split([UInt8]($0), ",") }
                .map { String(decoding: $0, as: UTF8.self).lowercased() }
                .map { $0.drop { " \t".contains($0) } }
                .map { String($0.reversed().drop { " \t".contains($0) }.reversed()) }
                .filter { !$0.isEmpty || false }
            let isBlank = values(message, "expect").contains { value in
                split([UInt8](value), ",").contains { part in
                    !part.isEmpty && part.allSatisfy { $0 == 32 || $0 == 9 }
                }
            }
            guard expectations.allSatisfy({ $0 == "100-continue" }), !isBlank else {
                throw Stop.refused
            }
            let needsLength = ["POST", "PUT", "PATCH"].contains(message.first)
            if needsLength && codings.isEmpty && lengths.isEmpty { throw Stop.refused }
        case .response(let toHead):
            let status = message.second
            if toHead || status.hasPrefix("1") || status == "204" || status == "304" {
                return .bytes(0)
            }
            if codings.isEmpty && lengths.isEmpty { return .untilClose }
        }
        if !codings.isEmpty { return .chunks }
        guard let length = lengths.first else { return .bytes(0) }
        return .bytes(try limited(Array(length.utf8), radix: 10))
    }

    /// A number no greater than the limit; compared digit by digit, for it may have thousands.
    private func limited(_ digits: [UInt8], radix: Int) throws -> Int {
        let significant = digits.drop { $0 == 48 }
        guard significant.count <= 9 else { throw Stop.refused }
        let text = String(decoding: significant, as: UTF8.self)
        guard let value = text.isEmpty ? 0 : Int(text, radix: radix), value <= bodyMax else {
            throw Stop.refused
        }
        return value
    }

    private func checkHost(_ message: Message) throws {
        let hosts = values(message, "host")
        guard hosts.count == 1 || (hosts.isEmpty && message.minorVersion == 0) else {
            throw Stop.refused
        }
        guard let host = hosts.first else { return }
        let name = try Self.authority([UInt8](host.utf8)).lowercased()
        guard message.authority.map({ $0.lowercased() == name }) ?? true else { throw Stop.refused }
    }

    private static var hostAndPort: Regex<(Substring, Substring?)> {
        /(?:\[[0-9A-Fa-f:.]+\]|(?:[\w\-.~!$&'()*+,;=]|%[0-9A-Fa-f]{2})+)(?::([0-9]*))?/
            .asciiOnlyWordCharacters()
    }

    /// `name`, `name:port`, `[address]` or `[address]:port`; the port may be empty: RFC 3986, section 3.2.
    private static func authority(_ word: [UInt8]) throws -> String {
        guard word.allSatisfy({ (33...126).contains($0) }) else { throw Stop.refused }
        let text = String(decoding: word, as: UTF8.self)
        guard let match = try hostAndPort.wholeMatch(in: text) else { throw Stop.refused }
        let port = (match.1 ?? "").drop { $0 == "0" }
        guard port.count <= 5, (Int(port) ?? 0) <= 65_535 else { throw Stop.refused }
        return text
    }

    private mutating func body(_ length: Length, fields: Int, _ isClosed: Bool) throws -> [UInt8] {
        var body: [UInt8] = []
        switch length {
        case .bytes(let count):
            guard rest.count >= count else { throw Stop.incomplete }
            body = Array(rest.prefix(count))
            rest = rest.dropFirst(count)
        case .untilClose:
            guard rest.count <= bodyMax else { throw Stop.refused }
            guard isClosed else { throw Stop.incomplete }
            body = Array(rest)
            rest = []
        case .chunks:
            var extensions = 0
            while true {
                let line = try line(max: 256)
                let digits = line.prefix { Self.hex.contains($0) }
                guard !digits.isEmpty else { throw Stop.refused }
                let isSound = try Self.isExtension(Array(line.dropFirst(digits.count)))
                guard isSound else { throw Stop.refused }
                extensions += line.count - digits.count
                let size = try limited(Array(digits), radix: 16)
                guard extensions <= Self.headMax, body.count + size <= bodyMax else {
                    throw Stop.refused
                }
                if size == 0 {
                    _ = try self.fields(limit: Self.fieldsMax - fields)
                    return body
                }
                guard rest.count >= size else { throw Stop.incomplete }
                body += rest.prefix(size)
                rest = rest.dropFirst(size)
                guard try self.line(max: 2).isEmpty else { throw Stop.refused }
            }
        }
        return body
    }

    /// `;name`, `;name=token`, `;name="quoted"`, any number of them, blanks around the signs.
    private static func isExtension(_ text: [UInt8]) throws -> Bool {
        try /(?:[\x20\t]*;[\x20\t]*T+(?:[\x20\t]*=[\x20\t]*(?:T+|QV+))?)*/
            .wholeMatch(in: try classes(text)) != nil
    }

    /// One letter for each byte, `Q` for an opening quote and `V` for all up to and with the closing one:
    /// the grammar becomes an expression.
    private static func classes(_ text: [UInt8]) throws -> String {
        var letters = ""
        var isQuoted = false
        var isEscaped = false
        for byte in text {
            if isQuoted {
                guard isText(byte) else { throw Stop.refused }
                if isEscaped {
                    isEscaped = false
                } else if byte == 92 {
                    isEscaped = true
                } else if byte == 34 {
                    isQuoted = false
                }
                letters += "V"
                continue
            }
            switch byte {
            case 34:
                isQuoted = true
                letters += "Q"
            case 32: letters += " "
            case 9: letters += "\t"
            case 59: letters += ";"
            case 61: letters += "="
            case _ where token.contains(byte): letters += "T"
            default: throw Stop.refused
            }
        }
        guard !isQuoted else { throw Stop.refused }
        return letters
    }

    // MARK: - Characters

    private static let digits = Set("0123456789".utf8)
    private static let hex = Set("0123456789abcdefABCDEF".utf8)
    private static let letters = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".utf8)
    private static let token = letters.union(digits).union("!#$%&'*+-.^_`|~".utf8)
    private static let pathCharacters = letters.union(digits).union("-._~!$&'()*+,;=:@/?".utf8)

    private static func isText(_ byte: UInt8) -> Bool {
        byte == 9 || (byte > 31 && byte != 127)
    }
}
