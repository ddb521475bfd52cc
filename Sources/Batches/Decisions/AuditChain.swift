import Digests
import Pricing

/// Recomputes the hashes of the audit trail, line by line in the order of their numbers, and says where the chain does
/// not hold. The memory does not grow with the trail.
///
/// The hash of a line is SHA-256 over eight values, each written as its length in bytes, a colon, the value and a
/// line feed: number, instant, instant of recording (both as `2026-01-05T00:00:00.000000Z`), user, action, object,
/// details, and the hash of the line before.
package struct AuditChain: Sendable {
    /// A line as it is stored. Its instants are the text that was hashed.
    package struct Line: Sendable, Equatable {
        package var sequence: Int64
        package var occurredAt: String
        package var recordedAt: String
        package var actor: String
        package var action: String
        package var object: String
        package var details: String
        package var previousHash: String
        package var hash: String
    }

    /// An end of the trail: the line that was the last one at some time.
    package struct Head: Sendable, Equatable {
        /// The line's number; nil for a kept hash without its number.
        package var sequence: Int64?
        package var hash: String

        package init(sequence: Int64?, hash: String) {
            self.sequence = sequence
            self.hash = hash
        }

        /// The end of a trail without lines.
        package static let empty = Head(sequence: 0, hash: String(repeating: "0", count: 64))
    }

    package struct Finding: Sendable, Equatable {
        package enum Kind: String, Sendable {
            /// The hash of the line does not match its content.
            case edited
            /// The line has the number of another line.
            case moved
            case missing
            /// The line does not continue the one before it, because that one was replaced.
            case unlinked
            /// The kept head is nowhere in the trail.
            case headUnknown = "head_unknown"
            /// A decision is stored, but no line of the trail records it.
            case untraced
            /// Lines are still to be chained.
            case waiting
        }

        package var kind: Kind
        /// The line; nil where the finding is not about one place.
        package var line: Int64?
        package var message: String
    }

    /// How many findings are kept. All are counted.
    package static let findingsMax = 100
    /// How many lower numbers are tried for a line that was moved. Each try costs a hash.
    private static let placesTriedMax: Int64 = 20_000
    private static let searchesMax = 20

    package private(set) var findings: [Finding] = []
    package private(set) var findingCount = 0
    package private(set) var lineCount: Int64 = 0
    /// The last line as it is stored.
    package private(set) var head = Head.empty
    private let kept: Head?
    private var isKeptFound: Bool
    private var wasLastSound = true
    private var searches = 0
    private let lastSequence: Int64

    /// - Parameters:
    ///   - kept: A head that was noted outside the database earlier.
    ///   - lastSequence: The number of the last stored line.
    package init(kept: Head?, lastSequence: Int64) {
        self.kept = kept
        self.lastSequence = lastSequence
        isKeptFound =
            kept.map { $0 == .empty || $0.hash == Head.empty.hash && $0.sequence == nil } ?? true
    }

    /// Checks the next line.
    package mutating func add(_ line: Line) {
        lineCount += 1
        let expected = (head.sequence ?? 0) &+ 1
        let hasGap = line.sequence > expected
        if hasGap { note(.missing, expected, Self.missing(expected, line.sequence - 1)) }
        let own = Self.hash(of: line, at: line.sequence)
        let isSound = own == line.hash
        if !isSound {
            noteUnsound(line)
        } else if !hasGap && wasLastSound && line.previousHash != head.hash {
            let before = expected == 1 ? "nothing" : "line \(expected - 1) as it stands"
            note(
                .unlinked, line.sequence, "does not follow \(before): what stood there was replaced"
            )
        }
        if let kept, isSound, kept.hash == own, (kept.sequence ?? line.sequence) == line.sequence {
            isKeptFound = true
        }
        wasLastSound = isSound
        head = Head(sequence: line.sequence, hash: line.hash)
    }

    /// Ends the check. It is called after the last line, with the end of the chain as the database keeps it.
    package mutating func finish(stored: Head) {
        let (last, end) = (head.sequence ?? 0, stored.sequence ?? 0)
        if end > last {
            note(.missing, last &+ 1, Self.missing(last &+ 1, end))
        } else if end < last || stored.hash != head.hash {
            note(
                .unlinked, last,
                "is not the end of the chain: audit_head names line \(end) \(stored.hash)")
        }
        if let kept, !isKeptFound {
            let place = kept.sequence.map { "line \($0) " } ?? ""
            note(
                .headUnknown, nil,
                "the kept head \(place)\(kept.hash) is not in the trail: it was cut or rewritten")
        }
    }

    /// Notes lines that are not in the chain yet, because a session holds its end.
    package mutating func noteWaiting(_ count: Int) {
        note(
            .waiting, nil,
            "\(count) more wait for a session that holds the end of the chain: end that session (`repricer status` names "
                + "it), and verify again")
    }

    mutating func noteUntraced(_ message: String) { note(.untraced, nil, message) }

    private static func missing(_ first: Int64, _ last: Int64) -> String {
        first == last ? "is missing" : "up to line \(last): missing"
    }

    private mutating func noteUnsound(_ line: Line) {
        searches += 1
        let places = searches <= Self.searchesMax ? min(lastSequence, Self.placesTriedMax) : 0
        let origin = (0..<max(places, 0)).lazy.map { $0 + 1 }
            .first { Self.hash(of: line, at: $0) == line.hash }
        if let origin {
            note(.moved, line.sequence, "was line \(origin)")
        } else {
            note(.edited, line.sequence, "was edited: what it says does not give its hash")
        }
    }

    private mutating func note(_ kind: Finding.Kind, _ line: Int64?, _ message: String) {
        findingCount += 1
        guard findings.count < Self.findingsMax else { return }
        findings.append(
            Finding(kind: kind, line: line, message: (line.map { "line \($0) " } ?? "") + message))
    }

    private static func hash(of line: Line, at sequence: Int64) -> String {
        var bytes: [UInt8] = []
        for value in [
            "\(sequence)", line.occurredAt, line.recordedAt, line.actor, line.action, line.object,
            line.details, line.previousHash,
        ] {
            bytes += Array("\(value.utf8.count):\(value)\n".utf8)
        }
        return SHA256.hexadecimalDigest(of: bytes)
    }
}
