import Batches
import Pricing
import Reports
import ServiceKit

/// A stored batch for a person, and for a program.
extension ApprovalFacts {
    /// `rows` are those of the screen; nil where there is none.
    func text(isTerminal: Bool, withDetails: Bool = false, rows: Int?) -> String {
        Density.fitting(withDetails ? nil : rows) { density in
            text(isTerminal: isTerminal, withDetails: withDetails, density)
        }
    }

    private func text(isTerminal: Bool, withDetails: Bool, _ density: Density) -> String {
        let short = FiguresText(
            figures: figures, money: money, isTerminal: isTerminal, density: density,
            isUndo: batch.undoesBatchID != nil)
        let sections = [
            overview, short.consentText, short.moneyText, short.datesText + dueText,
            short.movesText, wavesText,
            short.warningsText, withDetails ? "" : short.refusedText,
            policyText,
        ]
        return FiguresText.joined(sections + (withDetails ? figures.detailTables : []), density)
    }

    private var wavesText: String {
        waves.isEmpty
            ? ""
            : waves.table(waveColumns(of: batch)) + wrapped("waves: " + WavePlan.datesNote)
    }

    private var overview: String {
        var lines = [
            (name: "batch", value: "\(batch.name), \(batch.batchID)"),
            (
                "rows",
                "\(counted(batch.rowCount)) stored, \(counted(batch.rejectedRowCount)) refused"
            ),
            (
                "submitted",
                "by \(batch.submittedBy) at \(batch.submittedAt.instantText)"
            ), ("planned", "as of \(terms.plannedAsOf.instantText)"),
        ]
        if let decidedBy = batch.decidedBy, let decidedAt = batch.decidedAt {
            lines.append((batch.state, "by \(decidedBy) at \(decidedAt.instantText)"))
        } else {
            lines.append(("state", batch.state.replacing("_", with: " ")))
        }
        if terms.holdout > 0 {
            lines.append(
                (
                    "held out",
                    "\(counted(terms.heldOut, "row")) (\(WavePlan.percent(terms.holdout)) of the subscriptions): "
                        + "never sent, and in no figure below"
                ))
        }
        if let undone = batch.undoesBatchID { lines.append(("undoes", undone)) }
        let guards = guards.isEmpty ? "none" : guards.map(\.text).joined(separator: ", ")
        lines += [
            ("sent", "grouping \(batch.grouping); halts if: \(guards)"),
            ("plan hash", terms.planHash),
        ]
        return definitionList(lines)
    }

    /// When unsent rows may be sent, and by when they must be sent.
    private var dueText: String {
        guard !isOutOfDate else {
            return wrapped(
                "out of date: every renewal that the plan counts on has passed; reject the batch, and submit it anew"
            )
        }
        guard due.unsent > 0 else { return "due: nothing, all was sent or has ended\n" }
        var said = ["due: \(counted(due.ready)) of \(counted(due.unsent, "row")) may go at once"]
        if let nextAt = due.nextAt { said.append("the next from \(nextAt.instantText) on") }
        if due.waiting > 0 {
            said.append(
                "\(counted(due.waiting, "row")) \(due.waiting == 1 ? "waits" : "wait") for the release of \(due.waiting == 1 ? "its" : "their") wave"
            )
        }
        if due.overdue > 0 {
            said.append(
                "\(counted(due.overdue, "row")) \(due.overdue == 1 ? "is" : "are") overdue, and can only take effect "
                    + "at a later renewal than planned")
        }
        if let first = due.firstSendBy {
            said.append(
                "\(firstWords(of: due)) must go by \(first.instantText), \(counted(due.withinADay)) within a day, "
                    + "\(counted(due.withinAWeek)) within a week")
        }
        return wrapped(said.joined(separator: "; "))
    }

    /// Which rows the last instants are of: those of waves that wait have theirs, too.
    private func firstWords(of due: ApprovalOutlookQueries.Due) -> String {
        switch (due.overdue > 0, due.waiting > 0) {
        case (false, false): "the first"
        case (true, _): "the first of the others"
        case (false, true): "the first of all"
        }
    }

    private var policyText: String {
        guard batch.awaitsApproval else { return "" }
        let others = ([batch.submittedBy] + terms.firstApprovers).joined(separator: " or ")
        var lines = approvers.map { approver in
            let why = approver.exceeded.joined(separator: "; ")
            return switch (approver.name, why.isEmpty) {
            case (nil, true) where !terms.firstApprovers.isEmpty:
                "approval: by one more member of repricer_pricing, not \(others): "
                    + terms.firstExceeded.joined(separator: "; ")
            case (nil, true):
                "approval: by one member of repricer_pricing, not \(batch.submittedBy)"
            case (nil, false):
                "approval: by two members of repricer_pricing, not \(batch.submittedBy): \(why)"
            case (let name?, true): "approval: by \(name) alone"
            case (let name?, false): "approval: by \(name) and a second: \(why)"
            }
        }
        if approvers.count == 1, let only = approvers.first, let name = only.name,
            !only.exceeded.isEmpty
        {
            lines.append(
                "approval: no limit names a second; unless \(name) is a role of several people, the owner must name "
                    + "one (`repricer policy set`)")
        }
        if !terms.firstApprovers.isEmpty {
            lines.append("approved first: \(terms.firstApprovers.joined(separator: ", "))")
        }
        if terms.isOwn { lines.append("approval: not yours, for you submitted it") }
        return lines.map { wrapped(harmless($0)) }.joined()
    }

    var json: JSONValue {
        let all = FiguresJSON(figures: figures, money: money)
        return [
            "batch_id": batch.batchID, "name": batch.name, "state": batch.state,
            "submitted_by": batch.submittedBy, "submitted_at": batch.submittedAt.instantText,
            "decided_by": batch.decidedBy, "decided_at": batch.decidedAt?.instantText,
            "undoes_batch_id": batch.undoesBatchID, "planned_as_of": terms.plannedAsOf.instantText,
            "plan_hash": terms.planHash, "rows": batch.rowCount, "refused": batch.rejectedRowCount,
            "holdout_percent": terms.holdout > 0 ? WavePlan.percent(terms.holdout) : nil,
            "held_out": terms.heldOut,
            "rejected_rows": all.refused, "direction": all.directions, "consent": all.consent,
            "reasons": all.reasons, "not_known": all.notKnown, "money_a_month": all.moneyAMonth,
            "weeks": all.weeks, "months": all.months, "money": all.moneyLines,
            "largest_increases": all.increases, "largest_decreases": all.decreases,
            "warnings": all.warnings, "first_send_by": figures.firstSendBy,
            "last_effective_at": figures.lastEffectiveAt, "grouping": batch.grouping,
            "waves": waves.json(waveColumns(of: batch)), "guards": guards.map(\.text),
            "due": [
                "is_out_of_date": isOutOfDate, "unsent": due.unsent, "may_go_at_once": due.ready,
                "next_at": due.nextAt?.instantText,
                "waits_for_wave": due.waiting,
                "overdue": due.overdue, "first_send_by": due.firstSendBy?.instantText,
                "within_a_day": due.withinADay,
                "within_a_week": due.withinAWeek,
            ] as JSONValue, "policy": policy,
        ]
    }

    private var policy: JSONValue {
        [
            "submitted_by_you": terms.isOwn, "first_approvals": terms.firstApprovers,
            "approvers": JSONValue.array(
                approvers.map { approver in
                    [
                        "approver": approver.name,
                        "needs_second_approver": !approver.exceeded.isEmpty,
                        "exceeded": approver.exceeded,
                    ]
                }),
        ]
    }
}
