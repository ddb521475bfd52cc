import Batches
import Postgres
import Pricing
import Reports

extension Commands {
    private static let increaseFile = Positional(
        "FILE", "the past increases as CSV; - is standard input")
    private static let dryRun = Flag("dry-run", "print what would be stored, and store nothing")

    static let historyImport = Command(
        "history import", "add past increases that no notification told of",
        positionals: [increaseFile], options: [dryRun],
        discussion: """
            Columns: original_transaction_id, sku, increased_on (YYYY-MM-DD; from 00:00 UTC on), old_price, new_price \
            and currency. All rows or none; the same file again adds nothing. An imported increase counts for the \
            rule of 12 months like any other, and each verdict that rests on it says increase_source imported. It does \
            not say that there was no other one: what is not known stays so. An item that nothing tells the \
            subscription had is named: try --dry-run first, because an imported increase stays.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        let path = try invocation.arguments.required(increaseFile)
        let shownFile = path == "-" ? "(standard input)" : path
        let now = try await invocation.now(configuration)
        let isDryRun = invocation.arguments[dryRun]
        let told = try await invocation.withPool(configuration) { pool in
            let rules = try await pool.rules(at: now, knownAt: nil).inForce(at: now)
            let source = DigestingByteSource(try FileByteSource(path: path))
            let file = try await invocation.telling("reading the past increases") {
                try IncreaseFile(source: source, file: path, rules: rules, now: now)
            }
            let digest = source.hexadecimalDigest
            let ids = Set(file.rows.map(\.increase.originalTransactionID)).sorted()
            let what =
                "\(isDryRun ? "comparing" : "importing") \(counted(file.rows.count, "increase"))"
            return try await invocation.telling(what) {
                try await pool.withTransaction(.repeatableRead) { connection in
                    let change = IncreaseImport(
                        file, stored: try IncreaseQueries.load(ids, on: connection))
                    let isStored = change.faults.isEmpty && !change.added.isEmpty && !isDryRun
                    return HistoryImportTold(
                        file: shownFile, change: change, subscriptions: ids.count,
                        unknown: try IncreaseQueries.unknown(ids, on: connection),
                        ofUnknownItems: try IncreaseQueries.ofUnknownItems(
                            change.addedRows, on: connection),
                        number: isStored
                            ? try IncreaseQueries.add(
                                change.added, file: shownFile, contentSHA256: digest,
                                at: now.milliseconds, on: connection) : nil,
                        isDryRun: isDryRun)
                }
            }
        }
        let faults = told.change.faults
        guard faults.isEmpty else {
            invocation.dependencies.sayPlainly(
                faults.map { harmless($0.text(file: path)) + "\n" }.joined())
            let rows = Set(faults.map(\.line)).count
            throw CommandFailure(
                .inputRejected,
                "nothing imported: \(counted(rows, "row")) of \(shownFile) \(rows == 1 ? "is" : "are") wrong"
            )
        }
        try invocation.print(json: told.json, told.text)
        return .done
    }
}

/// What `history import` prints.
struct HistoryImportTold {
    let file: String
    let change: IncreaseImport
    let subscriptions: Int
    /// How many of these subscriptions are unknown, because nothing was received about them.
    let unknown: Int
    /// The rows of an item that, as far as is known, its subscription never had.
    let ofUnknownItems: [IncreaseFile.Row]
    /// The number of the import; nil where nothing was stored.
    let number: Int?
    let isDryRun: Bool

    var text: String {
        let name = harmless(file)
        guard !change.added.isEmpty else {
            let count = change.unchangedCount
            return "\(name) adds nothing: "
                + (count == 1
                    ? "its one increase is stored already.\n"
                    : "all \(count) increases are stored already.\n")
        }
        let count = change.added.count
        var text = "\(count) increase\(count == 1 ? "" : "s") "
        text += number.map { "added as history:\($0)" } ?? "would be added; nothing was stored"
        text += change.unchangedCount > 0 ? "; \(change.unchangedCount) stored already.\n" : ".\n"
        if unknown > 0 {
            text += "Of \(unknown) of the \(subscriptions) subscriptions nothing was received yet: "
            text += "check the ids, or bring them with repricer sync.\n"
        }
        return text + unknownItems
    }

    /// An item may have left before the first statement, so such a row is no fault.
    private var unknownItems: String {
        guard let first = ofUnknownItems.first?.increase else { return "" }
        let lines = ofUnknownItems.prefix(10).map { String($0.line) }.joined(separator: ", ")
        let more = ofUnknownItems.count > 10 ? ", …" : ""
        return "\(counted(ofUnknownItems.count, "increase")) of an item that nothing tells the "
            + "subscription had, as \(harmless(first.sku)) of \(first.originalTransactionID): check line"
            + "\(ofUnknownItems.count == 1 ? "" : "s") \(lines)\(more).\n"
    }

    var json: JSONValue {
        [
            "file": file, "import": number, "added": number == nil ? 0 : change.added.count,
            "unchanged": change.unchangedCount, "subscriptions": subscriptions,
            "unknown_subscriptions": unknown,
            "unknown_item_lines": ofUnknownItems.map(\.line),
            "dry_run": isDryRun,
        ]
    }
}
