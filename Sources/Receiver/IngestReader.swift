import Ledger

/// What became of the lines of a file. The five counts add up to `lines`.
package struct IngestSummary: Hashable, Sendable {
    package struct Problem: Hashable, Sendable {
        /// From 1.
        package let line: Int
        package let refusal: NotificationRefusal
    }

    /// Problems that are kept one by one; the counts hold all.
    package static let problemsMax = 1000

    /// Lines that are not blank.
    package internal(set) var lines = 0
    package internal(set) var new = 0
    package internal(set) var duplicate = 0
    /// New, kept as evidence only.
    package internal(set) var notUnderstood = 0
    package internal(set) var malformed = 0
    /// By code: signature, chain, bundle, app or environment.
    package internal(set) var refused: [String: Int] = [:]
    /// In the order of the lines, malformed ones included.
    package internal(set) var problems: [Problem] = []

    package var refusedCount: Int { refused.values.reduce(0, +) }
    /// Whether every line is stored now: exit code 0, else 3.
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
        case .unavailable: return
        }
        lines += 1
    }
}

/// Why reading stopped before the end. Reading the whole file again is safe: what was stored counts
/// as duplicate.
package enum IngestError: Error, Sendable, CustomStringConvertible {
    /// The database is away; everything before `line` is settled.
    case unavailable(line: Int, why: String, soFar: IngestSummary)
    case unreadable(line: Int, why: String, soFar: IngestSummary)

    package var description: String {
        switch self {
        case .unavailable(let line, let why, _): "stopped at line \(line): \(why); run it again"
        case .unreadable(_, let why, _): why
        }
    }
}

/// Reads NDJSON lines `{"signedPayload":"…"}` into the same intake as HTTP.
package struct IngestReader: Sendable {
    /// As for a body over HTTP.
    package static let lineBytesMax = 1 << 20
    private static let batchBytesMax = 8 << 20

    private let intake: NotificationIntake

    package init(intake: NotificationIntake) {
        self.intake = intake
    }

    /// Takes every line, a hundred at a time; `nextChunk` gives bytes in any cut, nil at the end.
    package func ingest(_ nextChunk: @escaping () throws -> [UInt8]?) async throws(IngestError)
        -> IngestSummary
    {
        var reader = LineReader(limit: Self.lineBytesMax, nextChunk: nextChunk)
        var summary = IngestSummary()
        while true {
            var batch: [NumberedLine] = []
            do {
                batch = try nextBatch(&reader)
            } catch {
                throw .unreadable(line: reader.number, why: "\(error)", soFar: summary)
            }
            guard !batch.isEmpty else { return summary }
            let outcomes = await take(batch)
            for (line, outcome) in zip(batch, outcomes) {
                if case .unavailable(let why) = outcome {
                    throw .unavailable(line: line.number, why: why, soFar: summary)
                }
                summary.add(outcome, line: line.number)
            }
        }
    }

    private struct NumberedLine: Sendable {
        let number: Int
        let payload: Result<String, NotificationRefusal>
    }

    private func nextBatch(_ reader: inout LineReader) throws -> [NumberedLine] {
        var batch: [NumberedLine] = []
        var bytes = 0
        while batch.count < NotificationStore.batchMax, bytes < Self.batchBytesMax,
            let line = try reader.next()
        {
            switch line {
            case .tooLong:
                let refusal = NotificationRefusal(
                    .malformed, code: "line_too_long",
                    message: "longer than \(Self.lineBytesMax) bytes")
                batch.append(NumberedLine(number: reader.number, payload: .failure(refusal)))
            case .bytes(let content):
                let text = reader.number == 1 ? withoutByteOrderMark(content) : content[...]
                guard !text.allSatisfy({ $0 == 0x20 || $0 == 0x09 || $0 == 0x0D }) else { continue }
                bytes += text.count
                let payload = Envelope.payload(in: text)
                batch.append(NumberedLine(number: reader.number, payload: payload))
            }
        }
        return batch
    }

    /// In the order of the batch; the lines are verified and committed together.
    private func take(_ batch: [NumberedLine]) async -> [IntakeOutcome] {
        await withTaskGroup(of: (Int, IntakeOutcome).self) { group in
            for (index, line) in batch.enumerated() {
                group.addTask {
                    switch line.payload {
                    case .failure(let refusal): (index, .refused(refusal))
                    case .success(let payload): (index, await intake.take(payload))
                    }
                }
            }
            var outcomes = batch.map { _ in IntakeOutcome.unavailable("not taken") }
            for await (index, outcome) in group { outcomes[index] = outcome }
            return outcomes
        }
    }

    private func withoutByteOrderMark(_ line: [UInt8]) -> ArraySlice<UInt8> {
        line.starts(with: [0xEF, 0xBB, 0xBF]) ? line[3...] : line[...]
    }
}
