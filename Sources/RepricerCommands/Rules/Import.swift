import Batches
import Postgres
import Pricing

extension Commands {
    private static let ruleFile = Positional("FILE", "the rules as CSV; - is standard input")
    private static let effectiveFrom = ValueOption(
        "effective-from", "INSTANT",
        "when rows without a valid_from of their own come into force; now when left out")
    private static let dryRun = Flag("dry-run", "print what would change, and change nothing")

    static let rulesImport = Command(
        "rules import", "add consent rules, currency decimals or exchange rates from a file",
        positionals: [ruleFile], options: [effectiveFrom, dryRun],
        discussion: """
            Columns: rule (threshold, always_consent, currency or exchange_rate); storefront; currency; period_kind \
            (annual or nonannual); amount or amount_milliunits; required (true or false); decimals; per_euro (what \
            one euro costs); valid_from; source (apple, the default, or estimated). A row fills the columns that \
            its rule needs. The European Central Bank's eurofxref.csv and eurofxref-hist.csv import as they are.
            All rows or none; rows are only ever added, so an earlier instant is judged as before.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        let path = try invocation.arguments.required(ruleFile)
        let shownFile = path == "-" ? "(standard input)" : path
        let now = try await invocation.now(configuration)
        let chosen = try invocation.arguments.instant(effectiveFrom)
            .map(Instant.init(milliseconds:))
        let source = DigestingByteSource(try FileByteSource(path: path))
        let file = try RuleFile(source: source, file: shownFile).dated(chosen)
        let digest = source.hexadecimalDigest
        let isDryRun = invocation.arguments[dryRun]
        let (change, revision) = try await invocation.withPool(configuration) { pool in
            try await pool.withTransaction(.repeatableRead) { connection in
                let stored = try RuleQueries.load(.all, now, on: connection)
                let change = RuleImport(file, stored: stored, from: chosen ?? now)
                guard change.faults.isEmpty, !change.changes.isEmpty, !isDryRun else {
                    return (change, Int?.none)
                }
                return (
                    change,
                    try RuleQueries.add(
                        change.rules, file: shownFile, contentSHA256: digest, at: now.milliseconds,
                        on: connection)
                )
            }
        }
        try refuse(change.faults, shownFile, invocation)
        let told = RuleImportTold(
            file: shownFile, change: change, version: revision, now: now, isDryRun: isDryRun)
        try invocation.print(json: told.json, told.text)
        return .done
    }

    private static func refuse(
        _ faults: [RuleFault], _ file: String, _ invocation: Invocation
    ) throws {
        guard !faults.isEmpty else { return }
        let lines = faults.map { harmless($0.text(file: file)) + "\n" }
        invocation.dependencies.sayPlainly(lines.joined())
        throw CommandFailure(
            .inputRejected, "nothing imported: \(faults.count) rows of \(file) are wrong")
    }
}

extension RuleFile {
    /// The bank's rates of one day, put into force from another instant.
    fileprivate func dated(_ from: Instant?) throws -> RuleFile {
        guard let from, case .europeanCentralBank(let days) = form else { return self }
        guard days == 1 else {
            throw UsageError(
                "--effective-from: the file has rates of \(days) days, each with its own; leave "
                    + "the option out")
        }
        return self.with(validFrom: from)
    }
}

/// What `rules import` prints.
struct RuleImportTold {
    /// A history of rates has a third of a million rows: nobody reads them.
    static let changesShownMax = 500

    let file: String
    let change: RuleImport
    /// Nil: nothing was stored.
    let version: Int?
    let now: Instant
    let isDryRun: Bool

    private var shown: ArraySlice<RuleImport.Change> {
        change.changes.prefix(Self.changesShownMax)
    }

    private var leftOut: Int { change.changes.count - shown.count }

    var text: String {
        let name = harmless(file)
        guard !change.changes.isEmpty else {
            return "\(name) changes nothing: \(Self.rows(change.unchangedCount)) "
                + "in force already.\n"
        }
        var text = shown.table(Self.columns)
        if leftOut > 0 { text += "and \(leftOut) more\n" }
        let count = change.changes.count
        text += "\n"
        text +=
            version.map { "\(count) added as version \($0) of the rules" }
            ?? "\(count) would be added; nothing was stored"
        text += change.unchangedCount > 0 ? "; \(change.unchangedCount) in force already.\n" : ".\n"
        let later = change.changes.count { ($0.rule.validFrom ?? now) > now }
        if later > 0 { text += "\(later) come into force after \(now.text).\n" }
        return text
    }

    private static func rows(_ count: Int) -> String {
        count == 1 ? "its one rule is" : "all \(count) rules are"
    }

    var json: JSONValue {
        [
            "file": file, "version": version, "added": version == nil ? 0 : change.changes.count,
            "unchanged": change.unchangedCount, "dry_run": isDryRun,
            "changes": shown.json(Self.columns), "changes_left_out": leftOut,
        ]
    }

    private static let columns: [Column<RuleImport.Change>] = [
        .text("RULE", "rule") { $0.rule.key }, .text("OLD", "old", none: "-") { $0.old?.value },
        .shown(.left("NEW")) { "-> " + $0.rule.value }, .key("new") { $0.rule.value },
        .text("FROM", "valid_from", none: "ever") { $0.rule.validFrom?.text },
    ]
}
