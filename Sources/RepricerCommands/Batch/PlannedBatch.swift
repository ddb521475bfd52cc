import Ledger
import Orchestrator
import Postgres
import Pricing

/// A batch file that was read and judged: what `plan` prints and `submit` stores.
struct PlannedBatch: Sendable {
    let file: String
    let asOf: Instant
    let environment: StoreEnvironment
    /// In the order of lines; each row of the file once.
    let rows: [PlanRow]
    let hash: String
    /// The well-formed rows, the spoiled ones and the form, to write refused rows back as they were.
    let content: BatchFileContent

    var refused: [PlanRow] { rows.filter { $0.fault != nil } }
    var canGoCount: Int { rows.count { $0.fault == nil } }

    /// Judges the content on the newest facts.
    static func plan(
        _ content: BatchFileContent, asOf: Instant, rules: RuleSet,
        environment: StoreEnvironment, pool: PostgresPool
    ) async throws -> PlannedBatch {
        let rows = try await Planner(pool: pool, rules: rules, environment: environment).plan(
            rows: content.rows, spoiled: content.spoiled.map(\.plan), asOf: asOf)
        var hash = PlanHash(rules: rules.inForce(at: asOf), environment: environment)
        for row in rows { hash.add(row) }
        return PlannedBatch(
            file: content.file, asOf: asOf, environment: environment, rows: rows, hash: hash.text,
            content: content)
    }

    /// Each refused row as `FILE:LINE: CODE: what is wrong; what to do`.
    func sayFaults(_ world: World) {
        var text = ""
        for row in rows {
            guard let fault = row.fault else { continue }
            text += harmless(fault.text(file: shownFile, line: row.line)) + "\n"
        }
        world.sayPlainly(text)
    }

    var shownFile: String { file == "-" ? "(standard input)" : file }
}

/// All rows of a batch file, and the digest of its bytes.
struct BatchFileContent: Sendable {
    let file: String
    let rows: [BatchRow]
    let spoiled: [SpoiledRow]
    let columns: [BatchColumn]
    let priceUnit: BatchPriceUnit
    /// Of the bytes as they stand: the same file again is the same batch.
    let sha256: String

    init(path: String, rules: RulesInForce) throws {
        try self.init(source: FileByteSource(path: path), file: path, rules: rules)
    }

    init(
        source: any BatchByteSource, file: String, rules: RulesInForce
    ) throws {
        let digesting = DigestingByteSource(source)
        var reader = try BatchFileReader(source: digesting, file: file, rules: rules)
        var rows: [BatchRow] = []
        var spoiled: [SpoiledRow] = []
        while let entry = try reader.next() {
            switch entry {
            case .row(let row): rows.append(row)
            case .spoiled(let row): spoiled.append(row)
            }
        }
        guard !rows.isEmpty || !spoiled.isEmpty else {
            throw CommandFailure(
                .inputRejected,
                "\(file): empty_file: the file has no rows; add a row for each price to change",
                isAboutFile: true)
        }
        self.file = file
        self.rows = rows
        self.spoiled = spoiled
        columns = reader.columns
        priceUnit = reader.priceUnit
        sha256 = digesting.digest.hexadecimalDigest()
    }
}

/// Hashes what passes through.
private final class DigestingByteSource: BatchByteSource {
    private let source: any BatchByteSource
    private(set) var digest = SHA256()

    init(_ source: any BatchByteSource) {
        self.source = source
    }

    func read() throws(BatchFileError) -> [UInt8] {
        let bytes = try source.read()
        digest.update(bytes)
        return bytes
    }
}
