import Foundation
import Synchronization

/// Every received call, in order: the audit ledger, and what a restart replays.
struct CallRecord: Codable, Hashable, Sendable {
    /// The store's instant of the call, UTC milliseconds.
    var at: Int64
    var endpoint: String
    var transactionId: String
    var requestReferenceId: String?
    var status: Int
    var errorCode: Int?
    /// Whether the engine took it; only these are replayed.
    var applied: Bool
    /// The same request id had been answered before.
    var repeated: Bool = false
    var fault: String?
    /// The body of an applied call.
    var body: String?
}

/// One attempt to deliver one notification.
struct DeliveryRecord: Codable, Hashable, Sendable {
    var uuid: String
    var at: Int64
    var result: NotificationOutbox.Result
}

/// Append-only files of JSON lines. A kill in the middle of a line loses that line and no other.
final class JournalFile: Sendable {
    private let handle: Mutex<Int32>
    let path: String

    init(path: String) throws(SandboxError) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw SandboxError(.failed, "cannot open \(path)") }
        handle = Mutex(descriptor)
        self.path = path
        // A line that a kill tore must not swallow the next one.
        let content = FileManager.default.contents(atPath: path)
        if let last = content?.last, last != 0x0a { _ = write(descriptor, "\n", 1) }
    }

    deinit {
        handle.withLock { _ = close($0) }
    }

    func append(_ record: some Encodable) throws(SandboxError) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            let line = [UInt8](try encoder.encode(record)) + [0x0a]
            let written = handle.withLock { write($0, line, line.count) }
            guard written == line.count else { throw SandboxError(.failed, "cannot write \(path)") }
        } catch let error as SandboxError {
            throw error
        } catch {
            throw SandboxError(.failed, "cannot encode a record of \(path): \(error)")
        }
    }

    /// All whole lines; a torn last line is left out.
    static func lines<Record: Decodable>(
        of path: String, as type: Record.Type
    ) throws(SandboxError) -> [Record] {
        guard let data = FileManager.default.contents(atPath: path) else { return [] }
        let decoder = JSONDecoder()
        var records: [Record] = []
        for line in data.split(separator: 0x0a) {
            // A torn line is one that a kill cut short: nothing was answered yet.
            if let record = try? decoder.decode(type, from: Data(line)) { records.append(record) }
        }
        return records
    }
}
