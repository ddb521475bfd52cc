import Batches
import Facts
import Pricing
import Reports

// Notices for what is paused or halted, and why.

extension BatchQueries.Batch {
    var named: NamedBatch { NamedBatch(batchID: batchID, name: name, state: state) }

    /// Its state, as a word with a colour.
    func badge(isFinal: Bool) -> HTML {
        let kind =
            switch state {
            case "awaiting_approval": "warn"
            case "approved" where isFinal: "good"
            case "approved" where haltedBy != nil: "alarm"
            case "approved" where isPaused: "warn"
            default: ""
            }
        return "<span class=\"badge \(kind)\">\(stateWords(isFinal: isFinal))</span>"
    }

    /// The same before its rows were counted, when it is not known whether an approved batch is under way or finished.
    var unknownBadge: HTML {
        state == "approved" && !isPaused
            ? "<span class=\"badge\">approved</span>" : badge(isFinal: false)
    }

    /// What stopped it; nil where nothing did. `word` is how a command names it.
    func stopNotice(_ word: String) -> Notice? {
        guard isPaused else { return nil }
        let since: HTML = pausedAt.map { " since \(.time($0))" } ?? .none
        let by: HTML = pausedBy.map { haltedBy == nil ? " by \($0)" : "" } ?? .none
        let why: HTML = pausedReason.map { ": \($0)" } ?? .none
        let answer: HTML =
            probeAnswer.map { "; the latest call that asked was refused with \($0)" } ?? .none
        let next: HTML = probeAt.map { "; the next call asks at \(.time($0))" } ?? .none
        let also: HTML =
            alsoPausedBy.map { by in
                let since: HTML = alsoPausedAt.map { " since \(.time($0))" } ?? .none
                let why: HTML = alsoPausedReason.map { ": \($0)" } ?? .none
                return "; also paused\(since) by \(by)\(why)"
            } ?? .none
        return Notice(
            haltedBy == nil ? .warn : .alarm, haltedBy == nil ? "Paused:" : "Halted:",
            "\(HTML.link(batchAddress(batchID), name))\(since)\(by)\(why)\(answer)\(next)\(also). "
                + "\(HTML.command("repricer resume \(word)")) lets it go on.",
            holdsCalls: true)
    }
}

extension [HomeQueries.Parked] {
    func notice(of batch: BatchQueries.Batch) -> Notice {
        let rows = reduce(0) { $0 + $1.rows }
        let reasons = prefix(3).map { HTML("\($0.reason) (\(counted($0.rows)))") }
        let more: HTML = count > 3 ? ", and \(count - 3) other reasons" : .none
        return Notice(
            .warn, "Parked:",
            "\(counted(rows, "row")) of \(HTML.link(batchAddress(batch.batchID), batch.name)) \(rows == 1 ? "waits" : "wait") after "
                + "a refusal or without an answer, and \(rows == 1 ? "is" : "are") tried again: "
                + "\(reasons.joined(by: ", "))\(more).")
    }
}

extension ControlQueries.HaltedStorefront {
    func notice(inBatch batches: [BatchQueries.Batch]) -> Notice {
        let batch = batches.first { $0.name == batchName }
        let name = batch.map { HTML.link(batchAddress($0.batchID), $0.name) } ?? HTML(batchName)
        let answer: HTML =
            latestProbe.map { "; \($0)" } ?? .none
        let next: HTML = probeAt.map { "; the next row asks at \(.time($0))" } ?? .none
        return Notice(
            .alarm, "Halted:",
            "storefront \(storefront) of \(name) since \(.time(at)): \(reason)\(answer)\(next).")
    }
}

extension TroubleQueries.WaitingWave {
    var notice: Notice {
        // The text marks commands with backticks.
        let parts = waitsFor.split(separator: "`", omittingEmptySubsequences: false)
        let reason = parts.enumerated().map { index, part -> HTML in
            index % 2 == 1 ? .command(String(part)) : HTML(String(part))
        }
        let words = waveDueWords(due: due, overdue: overdue)
        return Notice(
            overdue > 0 ? .alarm : .warn, "Waiting:",
            "wave \(number) (\(label)) of \(HTML.link(batchAddress(batchID), batchName)) waits for \(reason); "
                + "\(words.before)\(.time(firstSendBy))\(words.after)."
        )
    }
}

extension UndeliveredQueries.Undelivered {
    var notice: Notice {
        let since: HTML = askedAt.map { "since \(.time($0))" } ?? "so far"
        return Notice(
            .alarm, "Nobody delivers:",
            "changes are due, and no process has asked for a call \(since); "
                + "\(HTML.command("repricer serve")) delivers.")
    }
}

extension ServiceControlQueries.Everything {
    /// Notices of what is paused or halted as a whole; usually empty.
    var notices: [Notice] {
        var notices: [Notice] = []
        if isPaused {
            let since: HTML = pausedAt.map { " since \(.time($0))" } ?? .none
            notices.append(
                Notice(
                    .alarm, "Everything is paused",
                    "\(since)\(pausedBy.map { " by \($0)" } ?? "")\(pausedReason.map { ": \($0)" } ?? ""). "
                        + "\(HTML.command("repricer resume --all")) lets it go on."))
        }
        if let haltedAt {
            // A refusal of price changes halts only price changes, unless it is about our key.
            let what =
                isServiceHalted(.cancel) ? "Everything is halted" : "Price changes are halted"
            notices.append(Self.halt(what, haltedAt, haltedReason, haltedAnswer))
        }
        notices += haltedKinds.map {
            Self.halt("\(Self.words($0.kind)) are halted", $0.at, $0.reason, $0.answer)
        }
        notices += throttledKinds.map(Self.throttle) + unreachedKinds.map(Self.unreached)
        if let heldSince {
            let what: HTML =
                heldIsAll
                ? "changes are due and none can be claimed"
                : "calls and folds wait, while others go on"
            notices.append(
                Notice(
                    .alarm, "Blocked:",
                    "\(what), since \(.time(heldSince)): their rows are held by "
                        + "\(heldBy ?? "a session of this database user")."))
        }
        if let catchUpSince {
            notices.append(
                Notice(
                    .warn, "Catching up:",
                    "no call leaves until the notifications since \(.time(catchUpSince)) are read"
                        + "\(catchUpBy.map { "; \($0) recovers" } ?? "")"
                        + "\(catchUpAnswer.map { "; the latest reading stopped: \($0)" } ?? "").",
                    holdsCalls: true))
        }
        return notices
    }

    private static func halt(
        _ title: String, _ at: Int64, _ reason: String?, _ answer: String?
    ) -> Notice {
        let latest: HTML =
            answer.map { "; the latest call that asked was refused with \($0)" } ?? .none
        return Notice(
            .alarm, title,
            " since \(.time(at)): \(reason ?? "no reason was noted")\(latest). One call a minute asks again."
        )
    }

    private static func throttle(_ kind: ServiceControlQueries.KindThrottle) -> Notice {
        Notice(
            .warn, "\(words(kind.kind)) are slowed down",
            " since \(.time(kind.since)): the App Store gives no usable answers (the latest: \(kind.answer)). The next call "
                + "leaves at \(.time(kind.until)), or later, one at a time until one is answered.",
            holdsCalls: true)
    }

    private static func unreached(_ kind: ServiceControlQueries.KindUnreached) -> Notice {
        Notice(
            .warn, "\(words(kind.kind)) do not leave",
            " since \(.time(kind.since)): the latest try was at \(.time(kind.tried)): \(kind.answer). Nothing is lost, "
                + "and each is tried again.",
            holdsCalls: true)
    }

    private static func words(_ kind: String) -> String {
        switch StoreCall.Kind(rawValue: kind) {
        case .priceChange: "Price changes"
        case .cancel: "Cancellations"
        case .renewalExtension: "Extensions"
        case .massExtension: "Mass extensions"
        case nil: kind
        }
    }
}
