import Extensions
import Pricing
import ServiceKit

extension Commands {
    private static let optionalID = Positional(
        "EXTENSION", "the extension's id; all when left out", isRequired: false)

    static let extendStatus = Command(
        "extend status", "show what became of extensions", positionals: [optionalID],
        discussion: """
            told: what notifications said of each subscription; Apple: the counts of the summary, else of the status. \
            `report renewal_extension` has all of it.
            """
    ) { invocation in
        let id = try invocation.arguments[optionalID].map { try ExtensionArguments.uuid($0) }
        let configuration = try invocation.configuration()
        let found = try await invocation.withPool(configuration) { pool in
            try await pool.withTransaction { try ExtensionQueries.lines(of: id, on: $0) }
        }
        let lines = Array(found.prefix(ExtensionQueries.linesMax))
        let hasMore = found.count > lines.count
        if let id, lines.isEmpty {
            throw CommandFailure(
                .inputRejected, "no extension \(quoted(id)); `repricer extend status` lists them")
        }
        if invocation.isJSON {
            try invocation.print(
                .object(["extensions": .array(lines.map(json)), "has_more": .bool(hasMore)]))
        } else if let id, let line = lines.first {
            try invocation.print(text(id, line))
        } else {
            try invocation.print(table(lines))
        }
        if hasMore {
            invocation.note(
                "the newest \(lines.count) only; `repricer report renewal_extension` has all")
        }
        return .done
    }

    private static func table(_ lines: [ExtensionQueries.Line]) -> String {
        guard !lines.isEmpty else { return "no extensions\n" }
        var table = Table([
            .left("EXTENSION"), .left("KIND"), .left("OF"), .right("DAYS"), .left("STATE"),
            .right("EXTENDED"), .right("FAILED"), .left("CHECK"), .left("REQUESTED"),
        ])
        for line in lines {
            table.add([
                harmless(line.extensionID), line.kind, subject(line),
                line.days.map { "\($0)" } ?? "", line.state, line.extended.map { "\($0)" } ?? "",
                line.failed.map { "\($0)" } ?? "", line.check,
                line.requestedAt.map { RFC3339.format($0) } ?? "",
            ])
        }
        return table.text
    }

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
        if line.state == "running", line.code != nil {
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
        let text = at.map { RFC3339.format($0) } ?? "-"
        return user.map { "\(text) by \(harmless($0))" } ?? text
    }

    private static func json(_ line: ExtensionQueries.Line) -> JSONValue {
        func instant(_ at: Int64?) -> JSONValue { .text(at.map { RFC3339.format($0) }) }
        return .object([
            "kind": .string(line.kind), "extension_id": .string(line.extensionID),
            "product_id": .text(line.productID),
            "storefronts": line.storefronts.map { .array($0.map(JSONValue.string)) } ?? .null,
            "original_transaction_id": .text(line.originalTransactionID),
            "days": .number(line.days), "reason_code": .number(line.reason),
            "state": .string(line.state), "requested_by": .text(line.requestedBy),
            "requested_at": instant(line.requestedAt), "approved_by": .text(line.approvedBy),
            "rejected_by": .text(line.rejectedBy),
            "called_at": instant(line.calledAt), "completed_at": instant(line.completedAt),
            "eligible_forecast": .number(line.eligibleForecast),
            "extended": .number(line.extended), "failed": .number(line.failed),
            "apple_extended": .number(line.appleExtended),
            "apple_failed": .number(line.appleFailed), "retried": .number(line.retried),
            "retried_extended": .number(line.retriedExtended),
            "renewal_before": instant(line.renewalBefore), "renewal_at": instant(line.renewalAt),
            "code": .text(line.code), "check": .string(line.check), "detail": .text(line.detail),
        ])
    }
}
