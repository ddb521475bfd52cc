import Glibc

/// Posts notifications over `connections=` kept connections from one thread, and prints one JSON object with the
/// results.
///
/// Without `rate=` each connection sends its next request as soon as the last was answered. With it requests fall due
/// at even intervals, however long the answers take (an open loop), and a latency counts from the instant at which its
/// request was due.
enum LoadRun {
    static func run(_ options: Options) async throws {
        let lines = try MappedLines(path: "\(try options.text("folder"))/payloads.ndjson")
        let from = try options.integer("from", 0)
        let count = try options.integer("count")
        guard from + count <= lines.ranges.count else {
            throw BenchmarkFailure("there are only \(lines.ranges.count) payloads")
        }
        let generator = LoadGenerator(
            lines: lines, jobs: from..<(from + count),
            interval: try options.double("rate").map { .seconds(1) / $0 })
        let port = try options.integer("port")
        for _ in 0..<max(1, try options.integer("connections", 32)) {
            try generator.connect(port: port)
        }
        try generator.run()
        print(generator.report())
    }
}

/// One thread and `poll`; bodies go from the file's pages to the socket without a copy. It must use little CPU, because
/// it shares the machine with the measured service.
private final class LoadGenerator {
    private struct Connection {
        let descriptor: Int32
        var job: Int?
        var due = ContinuousClock.now
        var head: [UInt8] = []
        /// Bytes of head and body.
        var sent = 0
        var isWriting = false
    }

    private static let answerBytesMax = 16 << 10

    private let lines: MappedLines
    private let jobs: Range<Int>
    private let interval: Duration?
    private var connections: [Connection] = []
    /// What to wait for on each connection; -1, which poll ignores, where it is idle.
    private var entries: [pollfd] = []
    private var idle: [Int] = []
    private var next: Int
    private var latencies: [Duration] = []
    private var statuses: [Int: Int] = [:]
    private var start = ContinuousClock.now
    private var end = ContinuousClock.now
    private let answer = UnsafeMutableRawBufferPointer.allocate(
        byteCount: LoadGenerator.answerBytesMax, alignment: 1)

    init(lines: MappedLines, jobs: Range<Int>, interval: Duration?) {
        self.lines = lines
        self.jobs = jobs
        self.interval = interval
        next = jobs.lowerBound
        latencies.reserveCapacity(jobs.count)
    }

    deinit {
        for connection in connections { close(connection.descriptor) }
        answer.deallocate()
    }

    func connect(port: Int) throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(UInt16(clamping: port).bigEndian)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let code = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, size)
            }
        }
        guard descriptor >= 0, code == 0 else {
            throw BenchmarkFailure("port \(port): \(String(cString: strerror(errno)))")
        }
        var yes: Int32 = 1
        setsockopt(
            descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, socklen_t(MemoryLayout<Int32>.size))
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
        idle.append(connections.count)
        connections.append(Connection(descriptor: descriptor))
        entries.append(pollfd(fd: -1, events: 0, revents: 0))
    }

    func run() throws {
        start = .now
        while latencies.count < jobs.count {
            try startDue()
            guard poll(&entries, nfds_t(entries.count), timeout()) >= 0 || errno == EINTR else {
                throw BenchmarkFailure("poll: \(String(cString: strerror(errno)))")
            }
            for index in entries.indices where entries[index].revents != 0 {
                if connections[index].isWriting { try write(index) } else { try read(index) }
            }
        }
        end = .now
    }

    /// Milliseconds until the next request is due, at most 1000; 1000 also when that depends on answers only.
    private func timeout() -> Int32 {
        guard let interval, next < jobs.upperBound, !idle.isEmpty else { return 1000 }
        let due = start + interval * (next - jobs.lowerBound)
        let left = (due - .now) / .milliseconds(1)
        return Int32(max(0, min(1000, left.rounded(.up))))
    }

    private func startDue() throws {
        while next < jobs.upperBound, let index = idle.last {
            let due = interval.map { start + $0 * (next - jobs.lowerBound) } ?? .now
            guard due <= .now else { return }
            idle.removeLast()
            connections[index].job = next
            connections[index].due = due
            connections[index].head = Array(
                """
                POST /notifications HTTP/1.1\r\nHost: 127.0.0.1\r\n\
                Content-Type: application/json\r\nContent-Length: \(lines.ranges[next].count)\r\n\r\n
                """.utf8)
            connections[index].sent = 0
            next += 1
            try write(index)
        }
    }

    private func write(_ index: Int) throws {
        guard let job = connections[index].job else { return }
        let descriptor = connections[index].descriptor
        let body = lines.ranges[job]
        let head = connections[index].head
        while connections[index].sent < head.count + body.count {
            let sent = connections[index].sent
            let count =
                if sent < head.count {
                    head.withUnsafeBytes {
                        send(
                            descriptor, $0.baseAddress.map { $0 + sent }, head.count - sent,
                            Int32(MSG_MORE | MSG_NOSIGNAL))
                    }
                } else {
                    sendBody(body.dropFirst(sent - head.count), to: descriptor)
                }
            if count < 0, errno == EAGAIN || errno == EINTR {
                connections[index].isWriting = true
                wait(index, for: POLLOUT)
                return
            }
            guard count > 0 else { throw lost("sending") }
            connections[index].sent += count
        }
        connections[index].isWriting = false
        wait(index, for: POLLIN)
    }

    private func sendBody(_ range: Range<Int>, to descriptor: Int32) -> Int {
        var offset = off_t(range.lowerBound)
        return sendfile(descriptor, lines.descriptor, &offset, range.count)
    }

    private func wait(_ index: Int, for events: Int32) {
        entries[index].fd = connections[index].descriptor
        entries[index].events = Int16(events)
    }

    /// The receiver's answers are small and arrive in one piece. Only the first line matters.
    private func read(_ index: Int) throws {
        let count = recv(connections[index].descriptor, answer.baseAddress, answer.count, 0)
        if count < 0, errno == EAGAIN || errno == EINTR { return }
        guard count > 12 else { throw lost("receiving") }
        let status = answer[9..<12].reduce(0) { $0 * 10 + Int($1) - 48 }
        statuses[status, default: 0] += 1
        latencies.append(.now - connections[index].due)
        connections[index].job = nil
        entries[index].fd = -1
        idle.append(index)
    }

    private func lost(_ doing: String) -> BenchmarkFailure {
        BenchmarkFailure("\(doing): \(errno == 0 ? "closed" : String(cString: strerror(errno)))")
    }

    func report() -> String {
        let sorted = latencies.sorted()
        let milliseconds = { (part: Double) -> String in
            let index = min(sorted.count - 1, Int(Double(sorted.count) * part))
            let value = sorted.isEmpty ? 0 : sorted[max(0, index)] / .milliseconds(1)
            return "\((value * 100).rounded() / 100)"
        }
        var usage = rusage()
        // RUSAGE_SELF is 0; Swift imports it with a type that the call does not take.
        getrusage(0, &usage)
        let cpu =
            Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
            + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6
        let seconds = (end - start) / .seconds(1)
        let answers = statuses.sorted { $0.key < $1.key }
            .map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",")
        return """
            {"requests":\(latencies.count),"seconds":\(seconds),\
            "per_second":\(Int((Double(latencies.count) / seconds).rounded())),\
            "p50_ms":\(milliseconds(0.5)),"p99_ms":\(milliseconds(0.99)),\
            "max_ms":\(milliseconds(1)),"statuses":{\(answers)},"generator_cpu_seconds":\(cpu)}
            """
    }
}
