import ServiceKit

/// The outcomes of the lines of a file. The five counts add up to `lines`.
package struct IngestSummary: Hashable, Sendable {
    package struct Problem: Hashable, Sendable {
        /// The line's number, from 1 on.
        package let line: Int
        package let refusal: NotificationRefusal
    }

    /// How many problems are kept. The counts include all.
    package static let problemsMax = 1000

    /// The lines that are not blank.
    package internal(set) var lines = 0
    package internal(set) var new = 0
    package internal(set) var duplicate = 0
    /// The new ones that are kept as evidence only.
    package internal(set) var notUnderstood = 0
    package internal(set) var malformed = 0
    /// The refused ones by code: signature, chain, bundle, app or environment.
    package internal(set) var refused: [String: Int] = [:]
    /// The problems in the order of their lines, malformed lines included.
    package internal(set) var problems: [Problem] = []

    package var refusedCount: Int { refused.values.reduce(0, +) }
    /// Whether every line is stored now: then the exit code is 0, otherwise 3.
    package var isClean: Bool { malformed == 0 && refusedCount == 0 }

    mutating func add(_ outcome: IntakeOutcome, line: Int) {
        switch outcome {
        case .stored(isNew: false, _): duplicate += 1
        case .stored(isNew: true, understood: true): new += 1
        case .stored(isNew: true, understood: false): notUnderstood += 1
        case .refused(let refusal):
            switch refusal.kind {
            case .malformed: malformed += 1
            case .forbidden: refused[refusal.code, default: 0] += 1
            }
            if problems.count < Self.problemsMax {
                problems.append(Problem(line: line, refusal: refusal))
            }
        case .unavailable, .outdated: return
        }
        lines += 1
    }
}

/// Why reading stopped before the end. It is safe to read the whole file again, because what was stored counts as a
/// duplicate.
package struct IngestError: Error, Sendable, CustomStringConvertible {
    package enum Kind: Hashable, Sendable {
        /// The database cannot be reached.
        case away
        /// The database has been migrated for newer programs.
        case outdated
        /// The file cannot be read.
        case unreadable
    }

    package let kind: Kind
    package let line: Int
    package let why: String
    /// What was settled: everything before `line`.
    package let soFar: IngestSummary

    package var description: String {
        switch kind {
        case .away: "stopped at line \(line): \(why); run it again"
        case .outdated: "stopped at line \(line): \(why), and run it again"
        case .unreadable: why
        }
    }
}

/// Reads NDJSON lines `{"signedPayload":"…"}` into the same intake as HTTP.
///
/// One thread reads and takes lines apart, others verify, and the intake commits what comes together. None of the
/// three waits for another while the file has lines.
package struct IngestReader: Sendable {
    /// The longest line, in bytes, as for a body over HTTP.
    package static let lineBytesMax = 1 << 20
    /// The code of the refusal of a longer one.
    static let lineTooLong = "line_too_long"
    /// How many lines are being verified or stored at a time: enough for two full batches.
    private static let flyingMax = 2 * NotificationStore.batchMax
    private static let flyingBytesMax = 8 << 20

    private let intake: NotificationIntake
    private let threads: Int

    /// - Parameter threads: How many threads verify; best as many as there are cores.
    package init(intake: NotificationIntake, threads: Int) {
        self.intake = intake
        self.threads = max(1, threads)
    }

    /// Stores every line. `nextChunk` returns bytes, cut anywhere, and nil at the end.
    package func ingest(_ nextChunk: @escaping () throws -> [UInt8]?) async throws(IngestError)
        -> IngestSummary
    {
        let workers = (0..<threads).map { ThreadExecutor(name: "ingest-\($0)") }
        defer { for worker in workers { worker.shutdown() } }
        var reader = LineReader(limit: Self.lineBytesMax, nextChunk: nextChunk)
        var ledger = OutcomesInOrder()
        var failure: (any Error)?
        await withTaskGroup(of: Flight.self) { group in
            var flying = 0
            var bytes = 0
            while true {
                let line: NumberedLine?
                do {
                    line = try Self.nextLine(&reader)
                } catch {
                    failure = error
                    break
                }
                guard let line else { break }
                while flying > 0,
                    flying >= Self.flyingMax || bytes + line.bytes.count > Self.flyingBytesMax
                {
                    guard let landed = await group.next() else { break }
                    flying -= 1
                    bytes -= landed.bytes
                    ledger.settle(landed)
                }
                if ledger.firstUnavailable != nil { break }
                let order = ledger.open()
                flying += 1
                bytes += line.bytes.count
                group.addTask(executorPreference: workers[order % workers.count]) {
                    await self.take(line, order: order)
                }
            }
            for await landed in group { ledger.settle(landed) }
        }
        return try ledger.result(failure, nextLine: reader.number + 1)
    }

    /// One line on its way. `order` counts the lines that are not blank, from 0 on.
    fileprivate struct Flight: Sendable {
        let order: Int
        let line: Int
        let bytes: Int
        let outcome: IntakeOutcome
    }

    private struct NumberedLine: Sendable {
        let number: Int
        /// The bytes of the line; empty where it was too long.
        let bytes: ArraySlice<UInt8>
    }

    /// The next line that is not blank.
    private static func nextLine(_ reader: inout LineReader) throws -> NumberedLine? {
        while let line = try reader.next() {
            switch line {
            case .tooLong: return NumberedLine(number: reader.number, bytes: [])
            case .bytes(let content):
                let text = reader.number == 1 ? withoutByteOrderMark(content) : content[...]
                let isBlank = text.allSatisfy { $0 == 0x20 || $0 == 0x09 || $0 == 0x0D }
                if !isBlank { return NumberedLine(number: reader.number, bytes: text) }
            }
        }
        return nil
    }

    private func take(_ line: NumberedLine, order: Int) async -> Flight {
        Flight(
            order: order, line: line.number, bytes: line.bytes.count, outcome: await take(line))
    }

    private func take(_ line: NumberedLine) async -> IntakeOutcome {
        guard !line.bytes.isEmpty else {
            return intake.count(
                .refused(
                    NotificationRefusal(
                        .malformed, code: Self.lineTooLong,
                        message: "longer than \(Self.lineBytesMax) bytes")))
        }
        switch Envelope.payload(in: line.bytes) {
        case .failure(let refusal): return intake.count(.refused(refusal))
        case .success(let payload): return await intake.take(payload)
        }
    }

    private static func withoutByteOrderMark(_ line: [UInt8]) -> ArraySlice<UInt8> {
        line.starts(with: [0xEF, 0xBB, 0xBF]) ? line[3...] : line[...]
    }
}

/// Restores the order of the lines among outcomes that come in any order.
private struct OutcomesInOrder {
    private var opened = 0
    private var counted = 0
    private var early: [Int: IngestReader.Flight] = [:]
    private var summary = IngestSummary()
    private(set) var firstUnavailable: (line: Int, kind: IngestError.Kind, why: String)?

    mutating func open() -> Int {
        defer { opened += 1 }
        return opened
    }

    mutating func settle(_ flight: IngestReader.Flight) {
        early[flight.order] = flight
        while firstUnavailable == nil, let next = early.removeValue(forKey: counted) {
            switch next.outcome {
            case .unavailable(let why): firstUnavailable = (next.line, .away, why)
            case .outdated(let why): firstUnavailable = (next.line, .outdated, why)
            case .stored, .refused: summary.add(next.outcome, line: next.line)
            }
            counted += 1
        }
    }

    func result(
        _ failure: (any Error)?, nextLine: Int
    ) throws(IngestError) -> IngestSummary {
        if let (line, kind, why) = firstUnavailable {
            throw IngestError(kind: kind, line: line, why: why, soFar: summary)
        }
        if let failure {
            throw IngestError(
                kind: .unreadable, line: nextLine, why: "\(failure)", soFar: summary)
        }
        return summary
    }
}
