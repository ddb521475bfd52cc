import AppStore
import Facts
import Glibc
import Notifications
import Postgres
import Pricing
import Reports
import ServiceKit

extension Commands {
    private static let month = ValueOption(
        "month", "MONTH", "a month of receipt in UTC, such as 2026-03", isRequired: true)
    private static let exported = Positional(
        "FILE", "where it goes; a file that is there already is refused")
    private static let archived = Positional(
        "FILE", "what `evidence export` wrote; - is standard input")
    private static let kept = ValueOption(
        "head", "HASH", "the last line's hash, as the export printed it")

    static let evidenceExport = Command(
        "evidence export", "write a month of evidence to a file", positionals: [exported],
        options: [month],
        discussion: """
            NDJSON: one notification a line, as it was signed, and a chain of hashes over all of them. It is read without a \
            database: `repricer evidence verify FILE`. Export a month before `retention` drops it, and keep the hash that is \
            printed elsewhere than the file. A month that has not ended yet is refused, and for an hour after it.
            """
    ) { invocation in
        let text = try invocation.arguments.required(month)
        guard let start = Instant(text + "-01T00:00:00Z"), text.utf8.count == 7 else {
            throw UsageError(
                "--month cannot be \(quoted(text)); write year and month, such as 2026-03")
        }
        let configuration = try invocation.configuration()
        try configuration.check([.databaseURL, .bundleID, .environment])
        let clock = try await configuration.makeClock(dependencies: invocation.dependencies)
        let path = try invocation.arguments.required(exported)
        var status = stat()
        // A dangling link counts as existing too.
        guard path != "-", lstat(path, &status) != 0 else {
            throw CommandFailure(
                .inputRejected,
                path == "-"
                    ? "an export needs a file; name one"
                    : "\(path) is there already; name a file that is not, or remove it")
        }
        let writer = EvidenceFile.Writer(
            EvidenceFile.Head(
                month: text,
                bundleID: try configuration.required(configuration.bundleID, .bundleID),
                environment:
                    "\(try configuration.required(configuration.environment, .environment))",
                exportedAt: Instant(milliseconds: clock.nowMilliseconds()).text))
        let range = start.milliseconds..<start.advanced(byMonths: 1).milliseconds
        let bar = invocation.progressBar
        defer { bar.clear() }
        // It has a temporary name until it is complete, so that two exports to the same file do not disturb each other.
        let part = "\(path).\(String(UInt64.random(in: .min ... .max), radix: 16)).part"
        defer { unlink(part) }
        let (count, head) = try await invocation.withPool(configuration) { pool in
            try await DecidingClock.check(configuration, pool)
            try await checkThatItEnded(text, range.upperBound, by: clock, pool)
            try await checkThatItStands(text, range, pool)
            return try await export(range, writer, to: part, bar, pool)
        }
        bar.clear()
        try publish(part, as: path)
        try invocation.print(
            json: ["month": text, "file": path, "notifications": count, "head": head],
            "\(counted(count)) notifications of \(text), head \(head)\n")
        return .done
    }

    /// Gives a complete file the requested name, without replacing an existing file.
    private static func publish(_ part: String, as path: String) throws {
        var isThere = link(part, path) == 0
        if !isThere, [EPERM, EOPNOTSUPP, ENOSYS, EMLINK].contains(errno) {
            // This file system has no hard links, so the name is created first and then replaced.
            let taken = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            if taken >= 0 {
                Glibc.close(taken)
                isThere = rename(part, path) == 0
            }
        }
        guard isThere else {
            throw CommandFailure(
                errno == EEXIST ? .inputRejected : .failed,
                errno == EEXIST
                    ? "\(path) is there already: somebody else exported to it meanwhile; name another file"
                    : "\(path) cannot be written: \(String(cString: strerror(errno)))")
        }
        // `retention` may drop the month next, so the file's name must be on disk too.
        let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
        let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        defer { if descriptor >= 0 { Glibc.close(descriptor) } }
        guard descriptor >= 0, fsync(descriptor) == 0 || errno == EINVAL else {
            throw CommandFailure(
                .failed, "\(path) cannot be kept: \(String(cString: strerror(errno)))")
        }
    }

    /// How long after its month a notification may still be on its way into the database.
    private static let settledAfter: Duration = .seconds(3600)

    /// Refuses a month that may still get notifications: the file would look complete but lack later ones.
    private static func checkThatItEnded(
        _ month: String, _ end: Int64, by clock: any WallClock, _ pool: PostgresPool
    ) async throws {
        let now = try await DecidingClock.now(by: clock, pool)
        let from = end + settledAfter.milliseconds
        guard now >= from else {
            throw CommandFailure(
                .inputRejected,
                "\(month) has not ended, or notifications of it may still be on their way; export it from "
                    + "\(from.instantText) on")
        }
    }

    /// Refuses a month without a partition and without notifications, because its file would claim that none came.
    private static func checkThatItStands(
        _ month: String, _ range: Range<Int64>, _ pool: PostgresPool
    ) async throws {
        let isThere = try await pool.read { connection in
            let months = try MonthPartitions.all(of: .notifications, on: connection)
                .compactMap(\.months)
            let page = try EvidenceExportQueries.page(
                of: range, after: "", limit: 1, on: connection)
            return !page.isEmpty || months.contains { $0.overlaps(range) }
        }
        guard isThere else {
            throw CommandFailure(
                .inputRejected,
                "nothing is stored of \(month): `retention` dropped it, or nothing was received yet"
            )
        }
    }

    /// Writes the month from one snapshot, whose locks prevent its partition from being dropped meanwhile. Returns the
    /// number of notifications, and the last hash.
    private static func export(
        _ month: Range<Int64>, _ writer: EvidenceFile.Writer, to path: String, _ bar: ProgressBar,
        _ pool: PostgresPool
    ) async throws -> (count: Int, head: String) {
        try await pool.withTransaction(.repeatableRead) { connection in
            var writer = writer
            let file = try OutputFile(new: path)
            try file.write(writer.firstLine)
            var after = ""
            var count = 0
            while true {
                let page = try EvidenceExportQueries.page(
                    of: month, after: after, limit: 500, on: connection)
                for stored in page {
                    try file.write(
                        writer.line(
                            EvidenceFile.Entry(
                                uuid: stored.notificationUUID,
                                receivedAt: stored.receivedAt.instantText,
                                signedPayload: try stored.evidence.signedPayload())))
                }
                count += page.count
                bar.drawIfLate(
                    done: 0, total: 0, note: counted(Int64(count), "notification") + " written")
                guard let end = page.last?.notificationUUID else { break }
                after = end
            }
            try file.write(writer.lastLine())
            try file.keep()
            return (count, writer.head)
        }
    }

    static let evidenceVerify = Command(
        "evidence verify", "read an exported month again, without a database",
        positionals: [archived], options: [kept],
        discussion: """
            Checks each line's hash and number and each signature against REPRICER_ROOT_CERTIFICATES, and that the file is \
            whole. With --head a file that was written anew is found as well. Exits 1 when anything is wrong.
            """
    ) { invocation in
        let head = try invocation.arguments[kept].map { text throws(UsageError) in
            guard text.wholeMatch(of: /[0-9A-Fa-f]{64}/) != nil else {
                throw UsageError(
                    "--head cannot be \(quoted(text)); give the 64 digits that the export printed")
            }
            return text.lowercased()
        }
        let configuration = try invocation.configuration()
        try configuration.check([.bundleID, .environment, .rootCertificates])
        let live = try await Live(invocation, configuration)
        let path = try invocation.arguments.required(archived)
        let verifier = try live.notificationVerifier()
        let now = live.clock.nowMilliseconds()
        var reader = EvidenceFile.Reader()
        var faults = 0
        let bar = invocation.progressBar
        defer { bar.clear() }
        func tell(_ line: Int, _ what: String) {
            faults += 1
            bar.clear()
            if faults <= 100 { invocation.dependencies.sayPlainly("\(path):\(line): \(what)\n") }
        }
        let chunks = try FileChunks(path: path)
        var lines = LineReader(limit: 4 << 20) {
            bar.drawIfLate(read: chunks.bytesRead, of: chunks.size)
            return try chunks.next()
        }
        var notifications = 0
        var unsigned = 0
        while let line = try lines.next() {
            guard case .bytes(let bytes) = line else {
                tell(lines.number, "no line of an evidence file: it is too long")
                continue
            }
            let (entry, found) = reader.read(bytes)
            for fault in found { tell(lines.number, "\(fault)") }
            if reader.head == nil { break }
            guard let entry else { continue }
            notifications += 1
            let proof = EvidenceProof(
                of: entry.signedPayload, id: entry.uuid, by: verifier, now: now)
            if proof.isWholeThoughUnsigned {
                unsigned += 1
            } else if let why = proof.why {
                tell(lines.number, "\(entry.uuid) is not verified: \(why)")
            }
        }
        if !reader.isComplete {
            tell(lines.number + 1, "the last line is missing: the file was cut, or was never whole")
        }
        if let head, head != reader.last {
            tell(lines.number, "the last hash is another than --head: the file was written anew")
        }
        bar.clear()
        if head == nil {
            invocation.note(
                "without --head nobody sees a file that was written anew: give the hash that the export printed"
            )
        }
        try invocation.print(
            json: [
                "file": path, "month": reader.head?.month, "notifications": notifications,
                "unsigned": unsigned, "faults": faults, "head": reader.last,
            ],
            "\(counted(notifications, "notification")) of \(reader.head?.month ?? "no month"), \(counted(faults, "fault"))\n"
        )
        return faults == 0 ? .done : .failed
    }
}
