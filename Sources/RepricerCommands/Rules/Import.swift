import Batches
import Postgres
import Pricing
import Reports

extension Commands {
    private static let ruleFile = Positional("FILE", "the rules as CSV; - is standard input")
    private static let effectiveFrom = ValueOption(
        "effective-from", "INSTANT",
        "when rows without a valid_from of their own come into force; now when left out")
    private static let dryRun = Flag("dry-run", "print what would change, and change nothing")
    private static let acceptImplausible = Flag(
        "accept-implausible",
        "take amounts and currencies that can hardly be meant; the audit trail names them")

    static let rulesImport = Command(
        "rules import", "add consent rules, currency decimals or exchange rates from a file",
        positionals: [ruleFile], options: [effectiveFrom, dryRun, acceptImplausible],
        discussion: """
            Columns: rule (threshold, always_consent, currency or exchange_rate); storefront; currency; period_kind \
            (annual or nonannual); amount or amount_milliunits; required (true or false); decimals; per_euro (what \
            one euro costs); valid_from; source (apple, the default, or estimated); withdrawn. A row fills the columns \
            that its rule needs. Apple's table of thresholds imports as it is copied, with the columns storefront (or \
            ISO), currency, non-annual and annual; so do the European Central Bank's eurofxref.csv and \
            eurofxref-hist.csv. Cells are separated by commas, semicolons or tabs.
            withdrawn=true takes a row back: it names the rule, the storefront, currency and period_kind, and the \
            row's valid_from as `rules show` prints it (or ever). What held before holds again.
            All rows or none; nothing is overwritten, so an earlier instant is judged as before. A currency that the \
            storefront does not have, an annual amount below the non-annual one, and an amount more than ten times \
            or less than a tenth of what is near it are refused without --accept-implausible.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        let path = try invocation.arguments.required(ruleFile)
        let shownFile = path == "-" ? "(standard input)" : path
        let now = try await invocation.now(configuration)
        let chosen = try invocation.arguments.instant(effectiveFrom)
            .map(Instant.init(milliseconds:))
        let source = DigestingByteSource(try FileByteSource(path: path))
        let file = try await invocation.telling("reading the rules") {
            try RuleFile(source: source, file: path).dated(chosen)
        }
        let digest = source.hexadecimalDigest
        let isDryRun = invocation.arguments[dryRun]
        let takesAll = invocation.arguments[acceptImplausible]
        let what = "\(isDryRun ? "comparing" : "importing") the rules"
        let (change, revision) = try await invocation.withPool(configuration) { pool in
            try await invocation.telling(what) {
                try await pool.withTransaction(.repeatableRead) { connection in
                    let stored = try RuleQueries.load(.all, now, on: connection)
                    let change = RuleImport(file, stored: stored, from: chosen ?? now)
                    guard change.faults.isEmpty, change.warnings.isEmpty || takesAll,
                        !change.changes.isEmpty, !isDryRun
                    else { return (change, Int?.none) }
                    return (
                        change,
                        try RuleQueries.add(
                            change.changes,
                            accepted: change.warnings.map { $0.text(file: shownFile) },
                            file: shownFile, contentSHA256: digest, at: now.milliseconds,
                            on: connection)
                    )
                }
            }
        }
        try refuse(change, path, takesAll: takesAll, invocation)
        let told = RuleImportTold(
            file: shownFile, change: change, version: revision, now: now, isDryRun: isDryRun)
        try invocation.print(json: told.json, told.text)
        return .done
    }

    private static func refuse(
        _ change: RuleImport, _ path: String, takesAll: Bool, _ invocation: Invocation
    ) throws {
        let lines = (change.faults + change.warnings).sorted { $0.line < $1.line }
            .map { harmless($0.text(file: path)) + "\n" }
        invocation.dependencies.sayPlainly(lines.joined())
        let refused = change.faults + (takesAll ? [] : change.warnings)
        guard !refused.isEmpty else { return }
        let rows = Set(refused.map(\.line)).count
        let remedy =
            change.faults.isEmpty ? "; correct them, or take them with --accept-implausible" : ""
        throw CommandFailure(
            .inputRejected,
            "nothing imported: \(counted(rows, "row")) of \(path) \(rows == 1 ? "is" : "are") wrong\(remedy)"
        )
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
    /// A history of rates has a third of a million rows, which nobody would read.
    static let changesShownMax = 500

    let file: String
    let change: RuleImport
    /// nil where nothing was stored.
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
            version.map { "\(count) \(done) as version \($0) of the rules" }
            ?? "\(count) would be \(done); nothing was stored"
        text += change.unchangedCount > 0 ? "; \(change.unchangedCount) in force already.\n" : ".\n"
        let later = change.changes.count { ($0.rule.validFrom ?? now) > now }
        if later > 0 { text += "\(later) come into force after \(now.text).\n" }
        return text
    }

    private var done: String {
        let withdrawn = change.changes.count { $0.isWithdrawal }
        if withdrawn == 0 { return "added" }
        return withdrawn == change.changes.count ? "withdrawn" : "added or withdrawn"
    }

    private static func rows(_ count: Int) -> String {
        count == 1 ? "its one rule is" : "all \(count) rules are"
    }

    var json: JSONValue {
        [
            "file": file, "version": version, "added": version == nil ? 0 : change.changes.count,
            "unchanged": change.unchangedCount, "dry_run": isDryRun,
            "accepted_implausible": change.warnings.map { $0.text(file: file) },
            "changes": shown.json(Self.columns), "changes_left_out": leftOut,
        ]
    }

    private static let columns: [Column<RuleImport.Change>] = [
        .text("RULE", "rule") { $0.rule.key.text }, .text("OLD", "old", none: "-") { $0.shownOld },
        .shown(.left("NEW")) { "-> " + ($0.shownNew ?? "none") + $0.mark },
        .key("new") { $0.shownNew },
        .text("FROM", "valid_from", none: "ever") { $0.rule.validFrom?.text },
        .key("withdrawn") { $0.isWithdrawal },
    ]
}

extension RuleImport.Change {
    fileprivate var shownOld: String? { isWithdrawal ? rule.words : old?.words }
    /// nil where no rule holds.
    fileprivate var shownNew: String? { isWithdrawal ? old?.words : rule.words }
    fileprivate var mark: String { isWithdrawal ? " (withdrawn)" : "" }
}
