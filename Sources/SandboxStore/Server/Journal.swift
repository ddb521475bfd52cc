import Foundation
import ServiceKit
import Synchronization

/// One received call. The calls in order are the audit ledger, which a restart replays.
struct CallRecord: Codable, Hashable, Sendable {
    /// The store's instant of the call, UTC milliseconds.
    var at: Int64
    var endpoint: String
    var transactionId: String
    var requestReferenceId: String?
    var status: Int
    var errorCode: Int?
    /// Whether the engine applied it; only applied calls are replayed.
    var applied: Bool
    /// Whether the same request id had been answered before.
    var repeated: Bool = false
    var fault: String?
    /// The body of an applied call.
    var body: String?
    /// The number of the call in `wire.ndjson`.
    var call: Int64?
    /// The items after an applied price change.
    var effects: [ItemRecord]?
}

/// One item as an auditor needs it.
struct ItemRecord: Codable, Hashable, Sendable {
    var sku: String
    /// Charged in the running period, milliunits.
    var price: Int64
    var isLeaving: Bool
    /// The SKU that replaces it at the renewal; statements then show no renewal of the item itself.
    var replacedBy: String?
    var newPrice: Int64?
    var effectiveAt: Int64?
    /// nil: no increase is open.
    var needsConsent: Bool?
    var increaseStatus: String?
    var dependentSKUs: [String]?

    init(_ item: StoreItem) {
        sku = item.sku
        price = item.price
        isLeaving = item.isLeaving
        replacedBy = item.replacement?.sku
        newPrice = item.change?.price
        effectiveAt = item.change?.effectiveAt
        let increase = item.change?.increase
        needsConsent = increase?.needsConsent
        increaseStatus = increase?.status.rawValue
        dependentSKUs = increase?.dependentSKUs
    }
}

/// One thing that happened to a subscription, and its items after it: `events.ndjson`. Never read by the store.
struct EventRecord: Codable, Hashable, Sendable {
    var uuid: String
    var at: Int64
    var kind: StoreEvent.Kind
    var subtype: StoreEvent.Subtype?
    /// nil, like all fields after it, for the summary of a mass extension.
    var subscription: String?
    var status: Int?
    var autoRenews: Bool?
    var purchasedAt: Int64?
    var expiresAt: Int64?
    var items: [ItemRecord]?
    var summary: MassSummary?

    init(_ event: StoreEvent) {
        uuid = event.notificationUUID
        at = event.signedAt
        kind = event.kind
        subtype = event.subtype
        subscription = event.subscription?.id
        status = event.subscription?.status.rawValue
        autoRenews = event.subscription?.autoRenews
        purchasedAt = event.subscription?.purchasedAt
        expiresAt = event.subscription?.expiresAt
        items = event.subscription?.items.map(ItemRecord.init)
        summary = event.summary
    }
}

/// The beginning and the end of every call as the wire saw it: `wire.ndjson`. Never read by the store.
final class WireJournal: Sendable {
    private struct Edge: Codable {
        var call: Int64
        var edge: String
        /// The store's clock, UTC milliseconds.
        var at: Int64
        /// The machine's clock, UTC milliseconds.
        var realAt: Int64
        var endpoint: String?
        var transactionId: String?
        var requestReferenceId: String?
        /// The key id in the call's token, which identifies the caller.
        var keyId: String?
        /// nil where no answer was given, and for the beginning of a call.
        var status: Int?
        /// The instant in a `Retry-After`, UTC milliseconds of the store's clock.
        var retryAfter: Int64?
    }

    private let file: JournalFile
    private let calls = Mutex<Int64>(0)
    private let clock: any WallClock

    init(path: String, clock: any WallClock) throws(SandboxError) {
        file = try JournalFile(path: path)
        self.clock = clock
    }

    /// Writes the beginning; returns the call's number in this run of the program.
    func begin(
        _ endpoint: String, _ transaction: String, reference: String?, keyID: String?
    ) throws(SandboxError) -> Int64 {
        let (at, realAt) = now
        let call = calls.withLock { count in
            count += 1
            return count
        }
        try file.append(
            Edge(
                call: call, edge: "began", at: at, realAt: realAt, endpoint: endpoint,
                transactionId: transaction, requestReferenceId: reference, keyId: keyID))
        return call
    }

    func end(_ call: Int64, status: Int?, retryAfter: Int64? = nil) throws(SandboxError) {
        let (at, realAt) = now
        try file.append(
            Edge(
                call: call, edge: "ended", at: at, realAt: realAt, status: status,
                retryAfter: retryAfter))
    }

    private var now: (at: Int64, realAt: Int64) {
        (clock.nowMilliseconds(), SystemClock().nowMilliseconds())
    }
}

/// One attempt to deliver one notification.
struct DeliveryRecord: Codable, Hashable, Sendable {
    var uuid: String
    var at: Int64
    var result: NotificationOutbox.Result
}

/// Append-only files of JSON lines. A kill in the middle of a line loses only that line.
final class JournalFile: Sendable {
    private let handle: Mutex<Int32>
    let path: String

    init(path: String) throws(SandboxError) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw SandboxError(.failed, "cannot open \(path)") }
        handle = Mutex(descriptor)
        self.path = path
        // The next record must not be appended to a line that a kill cut short.
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

    /// All complete lines; lines that a kill cut short are skipped.
    static func lines<Record: Decodable>(
        of path: String, as type: Record.Type
    ) throws(SandboxError) -> [Record] {
        guard let data = FileManager.default.contents(atPath: path) else { return [] }
        let decoder = JSONDecoder()
        var records: [Record] = []
        for line in data.split(separator: 0x0a) {
            // A line that does not parse was cut short by a kill, before the call was answered.
            if let record = try? decoder.decode(type, from: Data(line)) { records.append(record) }
        }
        return records
    }
}
