import Digests
import JOSE
import JSON

/// A month of evidence as a file that needs no database: NDJSON. The first line describes the file, each further one
/// has a notification as it was signed, and the last one has their number. Each line has a hash over all lines up to
/// it.
///
/// | line | members |
/// | --- | --- |
/// | first | `repricer_evidence` 1, `month`, `bundle_id`, `environment`, `exported_at` |
/// | each | `n` from 1 on, `uuid`, `received_at`, `signedPayload`, `hash` |
/// | last | `count`, `hash` |
///
/// `hash` is SHA-256, in hexadecimal, over the hash before it (of the first notification: over the first line), the id, the
/// instant and the payload, each followed by a line feed; of the last line over the hash before it and the count.
enum EvidenceFile {
    /// The content of the first line.
    struct Head: Hashable, Sendable {
        var month: String
        var bundleID: String
        var environment: String
        var exportedAt: String
    }

    struct Entry: Hashable, Sendable {
        var uuid: String
        var receivedAt: String
        var signedPayload: String
    }

    private static let version: Int64 = 1

    private static func hash(_ parts: String...) -> String {
        var bytes: [UInt8] = []
        for part in parts {
            bytes += Array(part.utf8)
            bytes.append(0x0A)
        }
        return SHA256.hexadecimalDigest(of: bytes)
    }

    private static func line(_ number: Int64, _ entry: Entry, _ hash: String) -> String {
        JSONWriter.object {
            $0.number("n", number)
            $0.text("uuid", entry.uuid)
            $0.text("received_at", entry.receivedAt)
            $0.text("signedPayload", entry.signedPayload)
            $0.text("hash", hash)
        }
    }

    private static func lastLine(_ count: Int64, _ hash: String) -> String {
        JSONWriter.object {
            $0.number("count", count)
            $0.text("hash", hash)
        }
    }

    /// Makes the lines, each with its line feed.
    struct Writer {
        private var last: String
        private var count: Int64 = 0
        let firstLine: String
        /// The hash that identifies the file once the last line is written. Store it apart from the file.
        var head: String { last }

        init(_ head: Head) {
            let line = JSONWriter.object {
                $0.number("repricer_evidence", EvidenceFile.version)
                $0.text("month", head.month)
                $0.text("bundle_id", head.bundleID)
                $0.text("environment", head.environment)
                $0.text("exported_at", head.exportedAt)
            }
            firstLine = line + "\n"
            last = EvidenceFile.hash(line)
        }

        mutating func line(_ entry: Entry) -> String {
            count += 1
            last = EvidenceFile.hash(last, entry.uuid, entry.receivedAt, entry.signedPayload)
            return EvidenceFile.line(count, entry, last) + "\n"
        }

        mutating func lastLine() -> String {
            last = EvidenceFile.hash(last, String(count))
            return EvidenceFile.lastLine(count, last) + "\n"
        }
    }

    /// Why a line differs from what was written.
    struct Fault: Error, Hashable, Sendable, CustomStringConvertible {
        let description: String
    }

    /// Reads the lines in their order. After a fault in the chain it continues from the hash in the line, so that each
    /// fault is reported once.
    struct Reader {
        private(set) var head: Head?
        private(set) var count: Int64 = 0
        /// Whether the last line was there.
        private(set) var isComplete = false
        private(set) var last = ""

        init() {}

        /// The notification of this line; nil for the first and the last one.
        mutating func read(
            _ line: [UInt8]
        ) -> (entry: Entry?, faults: [Fault]) {
            if isComplete {
                return (nil, [Fault(description: "a line follows the last one: it was added")])
            }
            // Whatever the error is, it is not a line that we wrote.
            guard let node = JSONDocument.read(line), let record = try? JSONRecord(node) else {
                return (
                    nil, [Fault(description: "no line of an evidence file: it is cut or changed")]
                )
            }
            do {
                if head == nil { return (nil, try readHead(record, line)) }
                if let told = try record.int64OrNil("count") {
                    return (nil, try end(told, record, line))
                }
                return try readEntry(record, line)
            } catch {
                return (nil, [Fault(description: "no line of an evidence file: \(error)")])
            }
        }

        private mutating func readHead(
            _ record: JSONRecord, _ line: [UInt8]
        ) throws(JSONRecord.Fault) -> [Fault] {
            guard try record.int64OrNil("repricer_evidence") == EvidenceFile.version else {
                return [
                    Fault(
                        description: "the first line doesn't say that this is an evidence file of "
                            + "version \(EvidenceFile.version); it was removed, or this is another file"
                    )
                ]
            }
            head = Head(
                month: try record.text("month"), bundleID: try record.text("bundle_id"),
                environment: try record.text("environment"),
                exportedAt: try record.text("exported_at"))
            last = EvidenceFile.hash(String(decoding: line, as: UTF8.self))
            return []
        }

        private static func lines(_ first: Int64, _ last: Int64) -> String {
            first == last ? "line \(first) is" : "lines \(first) to \(last) are"
        }

        private mutating func readEntry(
            _ record: JSONRecord, _ line: [UInt8]
        ) throws(JSONRecord.Fault) -> (Entry?, [Fault]) {
            let entry = Entry(
                uuid: try record.text("uuid"), receivedAt: try record.text("received_at"),
                signedPayload: try record.text("signedPayload"))
            var faults: [Fault] = []
            let number = try record.int64("n")
            if number != count &+ 1 {
                faults.append(
                    Fault(
                        description: number > count
                            ? "\(Self.lines(count &+ 1, number &- 1)) missing before it"
                            : "line \(number) stands out of its order"))
            }
            let told = try record.text("hash")
            if EvidenceFile.hash(last, entry.uuid, entry.receivedAt, entry.signedPayload) != told {
                faults.append(
                    Fault(
                        description: "its hash doesn't follow from the line before: one was changed"
                    ))
            }
            if faults.isEmpty {
                faults = alteration(of: line, EvidenceFile.line(number, entry, told))
            }
            count = number
            last = told
            return (entry, faults)
        }

        private mutating func end(
            _ told: Int64, _ record: JSONRecord, _ line: [UInt8]
        ) throws(JSONRecord.Fault) -> [Fault] {
            isComplete = true
            var faults: [Fault] = []
            if told != count {
                faults.append(
                    Fault(description: "it says \(told) notifications, the last one is \(count)"))
            }
            let hash = try record.text("hash")
            if EvidenceFile.hash(last, String(told)) != hash {
                faults.append(
                    Fault(
                        description: "its hash doesn't follow from the line before: one was changed"
                    ))
            }
            if faults.isEmpty { faults = alteration(of: line, EvidenceFile.lastLine(told, hash)) }
            last = hash
            return faults
        }

        /// The hashes cover only the values. Anything else in a line, such as a further member, was added later.
        private func alteration(of line: [UInt8], _ written: String) -> [Fault] {
            guard line != Array(written.utf8) else { return [] }
            return [Fault(description: "it holds more than was written, or is written otherwise")]
        }
    }
}
