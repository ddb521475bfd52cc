import Pricing
import Reports

/// A plan for a person: one screen, and everything with `--details`.
extension PlanSummary {
    /// `rows` are those of the screen; nil where there is none.
    func text(isTerminal: Bool, withDetails: Bool, rows: Int?) -> String {
        Density.fitting(withDetails ? nil : rows) { density in
            text(isTerminal: isTerminal, withDetails: withDetails, density)
        }
    }

    private func text(isTerminal: Bool, withDetails: Bool, _ density: Density) -> String {
        let short = FiguresText(
            figures: figures, money: money, isTerminal: isTerminal, density: density)
        let sections = [
            overview(density), short.consentText, short.moneyText,
            short.datesText + quotaText(density),
            short.movesText, wavesText, short.warningsText, withDetails ? "" : short.refusedText,
        ]
        let end = definitionList([("plan hash", hash)])
        return FiguresText.joined(sections + (withDetails ? details : []), density) + end
    }

    /// Whether the batch can be submitted.
    private func overview(_ density: Density) -> String {
        let (rows, refused) = (forecast.rowCount, refusedCount)
        let canGo =
            if refused == 0 {
                "yes: all of \(counted(rows, "row"))"
            } else if forecast.canGoCount == 0 {
                "no: \(rows == 1 ? "its one row is" : "all \(counted(rows, "row")) are") refused (below)"
            } else {
                "not all: \(counted(forecast.canGoCount)) of \(counted(rows, "row")), "
                    + "\(counted(refused)) refused (below)"
            }
        let file = density >= .short ? [] : [(name: "file", value: shownFile)]
        let waiting =
            notificationsWaiting == 0
            ? []
            : [
                (
                    name: "lacks",
                    value:
                        "\(counted(notificationsWaiting, "notification")) not processed yet; `repricer serve` does that"
                )
            ]
        return definitionList(
            file + [("as of", "\(asOf.text) (\(environment.rawValue))"), ("can go", canGo)]
                + waiting)
    }

    /// How long sending takes, and whether that is too long.
    private func quotaText(_ density: Density) -> String {
        guard quota.calls > 0 else { return "" }
        let time =
            "\(counted(quota.calls, "call")) at \(Self.perSecond(quota.callsPerThousandSeconds)) a second: "
            + Self.duration(quota.seconds)
            + (density >= .short ? "" : ", other open batches counted")
        return wrapped(
            quota.lateRowCount == 0
                ? "late: none; \(time)"
                : "late: \(counted(quota.lateRowCount, "row")) would miss their renewal; \(time)")
    }

    private var details: [String] {
        [
            definitionList(
                [
                    ("send by", "the earliest", forecast.firstSendBy),
                    ("effective", "the last", forecast.lastEffectiveAt),
                ]
                .compactMap { name, which, at in
                    at.map { (name: name, value: "\($0.text), \(which)") }
                })
        ] + figures.detailTables + [
            uncertain.table(Self.uncertainColumns), lateText,
        ]
    }

    private var wavesText: String {
        waves.isEmpty
            ? "" : waves.table(Self.planWaveColumns) + wrapped("waves: " + WavePlan.datesNote)
    }

    private var lateText: String {
        let others = quota.lateRowCount - quota.lateRows.count
        return quota.lateRows.table(Self.lateColumns)
            + (others > 0 ? "and \(counted(others)) more\n" : "")
    }

    /// `0.5`, `50`.
    private static func perSecond(_ perThousandSeconds: Int) -> String {
        let (whole, rest) = perThousandSeconds.quotientAndRemainder(dividingBy: 1000)
        guard rest > 0 else { return "\(whole)" }
        let digits = String(String(rest + 1000).dropFirst())
        return
            "\(whole).\(digits.reversed().drop { $0 == "0" }.reversed().map(String.init).joined())"
    }

    /// `5 h 33 min`, `2 min 5 s`.
    private static func duration(_ seconds: Int64) -> String {
        if seconds >= 3600 { return "\(seconds / 3600) h \(seconds / 60 % 60) min" }
        return seconds >= 60 ? "\(seconds / 60) min \(seconds % 60) s" : "\(seconds) s"
    }
}
