import Extensions
import Pricing

extension Commands {
    private static let optionalID = Positional(
        "EXTENSION", "\(ExtensionFinder.meaning); all when left out", isRequired: false)

    static let extendStatus = Command(
        "extend status", "show what became of extensions", positionals: [optionalID],
        discussion: """
            told: what notifications said of each subscription; Apple: the counts of the summary, else of the status. \
            `report renewal_extension` has all of it.
            """
    ) { invocation in
        let (id, found) = try await invocation.withPool(try invocation.configuration()) { pool in
            var id: String?
            if let typed = invocation.arguments[optionalID] {
                id = try await ExtensionFinder.find(typed, pool: pool)
            }
            let wanted = id
            return (
                wanted,
                try await pool.withTransaction { try ExtensionQueries.lines(of: wanted, on: $0) }
            )
        }
        let lines = Array(found.prefix(ExtensionQueries.linesMax))
        let hasMore = found.count > lines.count
        if let id, lines.isEmpty {
            throw CommandFailure(
                .inputRejected, "no extension \(quoted(id)); `repricer extend status` lists them")
        }
        let text =
            if let id, let line = lines.first {
                text(id, line)
            } else {
                lines.isEmpty ? "no extensions\n" : lines.table(columns)
            }
        try invocation.print(
            json: ["extensions": lines.json(columns), "has_more": hasMore], text)
        if hasMore {
            invocation.note(
                "the newest \(lines.count) only; `repricer report renewal_extension` has all")
        }
        return .done
    }

    private static let columns: [Column<ExtensionQueries.Line>] = [
        .shown(.left("EXTENSION")) { $0.extensionID }, .text("KIND", "kind") { $0.kind },
        .key("extension_id") { $0.extensionID }, .key("product_id") { $0.productID },
        .key("storefronts") { $0.storefronts },
        .key("original_transaction_id") { $0.originalTransactionID },
        .shown(.left("OF")) { subject($0) }, .number("DAYS", "days") { $0.days },
        .key("reason_code") { $0.reason }, .text("STATE", "state") { $0.state },
        .key("requested_by") { $0.requestedBy },
        .key("requested_at") { $0.requestedAt?.instantText },
        .key("approved_by") { $0.approvedBy }, .key("rejected_by") { $0.rejectedBy },
        .key("called_at") { $0.calledAt?.instantText },
        .key("completed_at") { $0.completedAt?.instantText },
        .key("eligible_forecast") { $0.eligibleForecast },
        .number("EXTENDED", "extended") { $0.extended }, .number("FAILED", "failed") { $0.failed },
        .key("apple_extended") { $0.appleExtended }, .key("apple_failed") { $0.appleFailed },
        .key("retried") { $0.retried }, .key("retried_extended") { $0.retriedExtended },
        .key("renewal_before") { $0.renewalBefore?.instantText },
        .key("renewal_at") { $0.renewalAt?.instantText }, .key("code") { $0.code },
        .text("CHECK", "check") { $0.check }, .key("detail") { $0.detail },
        .shown(.left("REQUESTED")) { $0.requestedAt?.instantText ?? "" },
    ]

    private static func subject(_ line: ExtensionQueries.Line) -> String {
        harmless(line.originalTransactionID ?? line.productID ?? "")
    }

    private static func text(_ id: String, _ line: ExtensionQueries.Line) -> String {
        var facts: [(String, String)] = [
            ("extension", id), ("of", subject(line)), ("state", line.state),
            ("days", line.days.map { "\($0)" } ?? ""),
            ("requested", moment(line.requestedAt, by: line.requestedBy)),
        ]
        if let storefronts = line.storefronts {
            facts.append(("storefronts", harmless(storefronts.joined(separator: ", "))))
        }
        if let approver = line.approvedBy { facts.append(("approved by", harmless(approver))) }
        if let user = line.rejectedBy { facts.append(("rejected by", harmless(user))) }
        facts.append(("called", moment(line.calledAt)))
        if line.kind == "all" {
            facts += [
                ("eligible", "\(line.eligibleForecast ?? 0) when it was asked for"),
                ("told", "\(line.extended ?? 0) extended, \(line.failed ?? 0) failed"),
                ("Apple", counts(line)),
                ("retried", "\(line.retried ?? 0), \(line.retriedExtended ?? 0) extended"),
            ]
        } else {
            facts.append(
                ("renewal", "\(moment(line.renewalBefore)) -> \(moment(line.renewalAt))"))
        }
        facts += [("complete", moment(line.completedAt)), ("check", line.check)]
        let words = [line.code, line.detail].compactMap { $0 }.joined(separator: ": ")
        if !words.isEmpty { facts.append(("detail", harmless(words))) }
        if line.state == "running" && line.code != nil
            || line.kind == "all" && line.state == "unknown"
        {
            facts.append(
                (
                    "remedy",
                    "`repricer reconcile` fetches a lost summary; a day after the call `extend give-up` ends it"
                ))
        }
        return definitionList(facts)
    }

    private static func counts(_ line: ExtensionQueries.Line) -> String {
        guard line.appleExtended != nil || line.appleFailed != nil else { return "not told yet" }
        return "\(line.appleExtended.map { "\($0)" } ?? "?") extended, "
            + "\(line.appleFailed.map { "\($0)" } ?? "?") failed"
    }

    private static func moment(_ at: Int64?, by user: String? = nil) -> String {
        let text = at?.instantText ?? "-"
        return user.map { "\(text) by \(harmless($0))" } ?? text
    }
}
