/// Reads HTTP/1.1 messages from bytes that arrive in any pieces, and does no input or output.
///
/// ```
/// startLine ─▶ fields ─▶ .head ─┬▶ fixed ───────────────────────────┬▶ .message ─▶ startLine
///                               ├▶ chunkSize ⇄ chunkData ─▶ trailers ┤
///                               └▶ untilClose ──── finish() ─────────┘
/// ```
/// An error is final: the place where the next message would begin is unknown.
struct MessageParser: Sendable {
    enum Role: Sendable, Equatable {
        case request
        case response(toHead: Bool)
    }

    enum Event: Sendable {
        /// The head is complete and its body is still to come: the moment for `100 Continue`.
        case head(MessageHead)
        case message(MessageHead, body: [UInt8])
    }

    private enum Phase: Sendable {
        case startLine
        case fields(MessageHead.StartLine, minorVersion: Int)
        case fixed(MessageHead, remaining: Int)
        case untilClose(MessageHead)
        case chunkSize(MessageHead)
        case chunkData(MessageHead, remaining: Int)
        case chunkEnd(MessageHead)
        case trailers(MessageHead)
    }

    /// The most interim responses before the final one, or empty lines before a request.
    private static let prefaceMax = 8
    private static let chunkLineBytesMax = 256
    /// How many bytes a declared length may reserve before they have arrived.
    private static let reserveBytesMax = 64 * 1024

    private let role: Role
    private let limits: MessageLimits
    private var phase = Phase.startLine
    private var buffer: [UInt8] = []
    private var position = 0
    private var searched = 0
    private var headBytes = 0
    private var prefaces = 0
    private var trailers = 0
    private var extensionBytes = 0
    private var headers = HTTPHeaders()
    private var body: [UInt8] = []
    /// The head of the message whose body is being read, or cannot be.
    private(set) var head: MessageHead?

    init(role: Role, limits: MessageLimits) {
        self.role = role
        self.limits = limits
    }

    /// Whether no byte of a further message has arrived.
    var isBetweenMessages: Bool {
        if case .startLine = phase { return position == buffer.count && prefaces == 0 }
        return false
    }

    mutating func append(_ bytes: some Collection<UInt8>) {
        // What was read before a pipelined rest is dropped here, so that the buffer cannot grow for ever.
        if position == buffer.count {
            // This saves a copy for the usual request, which comes in one piece.
            buffer = Array(bytes)
            searched = 0
        } else {
            buffer.removeSubrange(..<position)
            searched -= position
            buffer.append(contentsOf: bytes)
        }
        position = 0
    }

    /// The next event, or nil when more bytes are needed.
    mutating func next() throws(HTTPParseError) -> Event? {
        while true {
            let before = phase
            switch before {
            case .startLine:
                guard try readStartLine() else { return nil }
            case .fields(let start, let minorVersion):
                guard let line = try takeHeadLine() else { return nil }
                if let event = try readField(line, start, minorVersion) { return event }
            case .fixed(let head, let remaining):
                let left = takeBody(remaining)
                phase = .fixed(head, remaining: left)
                return left == 0 ? finished(head) : nil
            case .untilClose(let head):
                _ = takeBody(buffer.count - position)
                guard body.count <= limits.bodyBytesMax else { throw Self.bodyTooLarge }
                phase = .untilClose(head)
                return nil
            case .chunkSize, .chunkData, .chunkEnd, .trailers:
                guard let event = try readChunked() else { return nil }
                if case .message = event { return event }
            }
        }
    }

    /// Ends the input: completes a body that lasts until then, or says what is missing.
    mutating func finish() throws(HTTPParseError) -> Event? {
        if let event = try next() { return event }
        if isBetweenMessages { return nil }
        if case .untilClose(let head) = phase { return finished(head) }
        throw HTTPParseError(.truncated, "the connection ended inside a message")
    }

    private static let bodyTooLarge = HTTPParseError(.bodyTooLarge, "the body is too large")

    // MARK: - Head

    private mutating func readStartLine() throws(HTTPParseError) -> Bool {
        // This is no text protocol (a TLS hello, or noise), so it is refused without waiting for a line end.
        if position < buffer.count, !HTTPCharacters.isToken(buffer[position]),
            buffer[position] != 0x0D, buffer[position] != 0x0A
        {
            throw HTTPParseError(.malformed, "this is not HTTP")
        }
        guard let line = try takeLine(max: limits.startLineBytesMax, .targetTooLong) else {
            return false
        }
        if line.isEmpty {
            prefaces += 1
            guard prefaces <= Self.prefaceMax else {
                throw HTTPParseError(.malformed, "too many empty lines before the message")
            }
            return true
        }
        let (start, minorVersion) =
            switch role {
            case .request: try MessageHead.requestLine(line)
            case .response: try MessageHead.statusLine(line)
            }
        headBytes = line.count + 2
        trailers = 0
        extensionBytes = 0
        headers = HTTPHeaders()
        phase = .fields(start, minorVersion: minorVersion)
        return true
    }

    private mutating func readField(
        _ line: ArraySlice<UInt8>, _ start: MessageHead.StartLine, _ minorVersion: Int
    ) throws(HTTPParseError) -> Event? {
        if line.isEmpty { return try readHeadEnd(start, minorVersion) }
        guard headers.pairs.count < limits.fieldsMax else {
            throw HTTPParseError(.headTooLarge, "there are too many header fields")
        }
        let (name, value) = try MessageHead.field(line)
        headers.append(name, value)
        return nil
    }

    private mutating func readHeadEnd(
        _ start: MessageHead.StartLine, _ minorVersion: Int
    ) throws(HTTPParseError) -> Event? {
        let head: MessageHead
        switch (start, role) {
        case (.response(let status), .response(let toHead)):
            head = try MessageHead.response(
                start, status: status, minorVersion: minorVersion, headers: headers,
                hasNoBody: toHead)
            if status < 200 {
                prefaces += 1
                guard prefaces <= Self.prefaceMax, status != 101 else {
                    throw HTTPParseError(.malformed, "unexpected interim response")
                }
                phase = .startLine
                return nil
            }
        case (.request, _), (.response, .request):
            head = try MessageHead.request(start, minorVersion: minorVersion, headers: headers)
        }
        body = []
        self.head = head
        switch head.framing {
        case .length(let count):
            guard count <= limits.bodyBytesMax else { throw Self.bodyTooLarge }
            body.reserveCapacity(min(count, Self.reserveBytesMax))
            phase = .fixed(head, remaining: count)
        case .chunked: phase = .chunkSize(head)
        case .untilClose: phase = .untilClose(head)
        }
        return .head(head)
    }

    // MARK: - Body

    /// Reads one step of a chunked body; a `.head` event here only means "go on".
    private mutating func readChunked() throws(HTTPParseError) -> Event? {
        switch phase {
        case .chunkSize(let head):
            guard let line = try takeLine(max: Self.chunkLineBytesMax, .malformed) else {
                return nil
            }
            guard let (size, extensionCount) = ChunkLine.parse(line) else {
                throw HTTPParseError(.malformed, "a chunk size is not a number")
            }
            // Extensions have no meaning here, and must not circumvent the body's limit.
            extensionBytes += extensionCount
            guard extensionBytes <= limits.headBytesMax else { throw Self.bodyTooLarge }
            guard size <= limits.bodyBytesMax - body.count else { throw Self.bodyTooLarge }
            phase = size == 0 ? .trailers(head) : .chunkData(head, remaining: size)
            return .head(head)
        case .chunkData(let head, let remaining):
            let left = takeBody(remaining)
            phase = left == 0 ? .chunkEnd(head) : .chunkData(head, remaining: left)
            return left == 0 ? .head(head) : nil
        case .chunkEnd(let head):
            guard let line = try takeLine(max: 2, .malformed) else { return nil }
            guard line.isEmpty else {
                throw HTTPParseError(.malformed, "a chunk is longer than its size")
            }
            phase = .chunkSize(head)
            return .head(head)
        case .trailers(let head):
            guard let line = try takeHeadLine() else { return nil }
            if line.isEmpty { return finished(head) }
            trailers += 1
            guard headers.pairs.count + trailers <= limits.fieldsMax else {
                throw HTTPParseError(.headTooLarge, "there are too many trailer fields")
            }
            // The trailer field is checked and dropped, because it must not pass for a field of the head.
            _ = try MessageHead.field(line)
            return .head(head)
        case .startLine, .fields, .fixed, .untilClose: return nil
        }
    }

    private mutating func finished(_ head: MessageHead) -> Event {
        phase = .startLine
        self.head = nil
        prefaces = 0
        // An idle connection holds no buffer.
        if position == buffer.count {
            buffer = []
            position = 0
            searched = 0
        }
        defer { body = [] }
        return .message(head, body: body)
    }

    /// Moves up to `count` buffered bytes to the body. Returns how many are still missing.
    private mutating func takeBody(_ count: Int) -> Int {
        let available = min(count, buffer.count - position)
        body.append(contentsOf: buffer[position..<position + available])
        position += available
        searched = position
        return count - available
    }

    /// Takes one line of the head. All lines of a message share one limit.
    private mutating func takeHeadLine() throws(HTTPParseError) -> ArraySlice<UInt8>? {
        let line = try takeLine(max: max(2, limits.headBytesMax - headBytes), .headTooLarge)
        if let line { headBytes += line.count + 2 }
        return line
    }

    /// Takes a line without its CRLF; nil while it is incomplete. Throws `excess` beyond `max` bytes.
    private mutating func takeLine(
        max: Int, _ excess: HTTPParseError.Kind
    ) throws(HTTPParseError) -> ArraySlice<UInt8>? {
        let from = Swift.max(searched, position)
        guard let end = buffer[from...].firstIndex(of: 0x0A) else {
            searched = buffer.count
            guard buffer.count - position <= max else {
                throw HTTPParseError(excess, "a line is too long")
            }
            return nil
        }
        guard end - position <= max else { throw HTTPParseError(excess, "a line is too long") }
        guard end > position, buffer[end - 1] == 0x0D else {
            throw HTTPParseError(.malformed, "a line does not end with CR and LF")
        }
        defer {
            position = end + 1
            searched = position
        }
        return buffer[position..<end - 1]
    }
}
