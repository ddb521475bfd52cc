import Facts
import Pricing
import Reports

extension Site {
    fileprivate static let moneyMax = 200
    private static let timelineMax = 500

    func subscriptionPage(_ id: String) async throws -> Page {
        let unknown = PageFault(
            404, "This subscription is not known",
            "Nothing was ever received of <code>\(String(id.prefix(80)))</code>. Check the original transaction id; "
                + "<code>repricer sync</code> reads a subscription from the App Store.")
        // No stored id is longer or has a control character, and PostgreSQL accepts no zero byte.
        let isPlain = id.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F }
        guard isPlain, (1...64).contains(id.utf8.count) else { throw unknown }
        let now = clock.nowMilliseconds()
        let view = try await pool.withTransaction(.repeatableRead) { connection in
            SubscriptionView(
                id: id, facts: try SubscriptionPageQueries.facts(of: id, on: connection),
                items: try SubscriptionPageQueries.items(of: id, on: connection),
                changes: try SubscriptionPageQueries.changes(of: id, on: connection),
                money: try SubscriptionPageQueries.money(
                    of: id, limit: Self.moneyMax + 1, on: connection),
                dependents: try SubscriptionPageQueries.dependents(of: id, on: connection),
                claims: try SubscriptionPageQueries.claims(of: id, on: connection),
                timeline: try TimelineQueries.lines(of: id, on: connection).withIdleReadsFolded,
                now: now)
        }
        guard view.facts != nil || !view.changes.isEmpty || !view.timeline.isEmpty else {
            throw unknown
        }
        return Page(
            title: "Subscription \(id)", lead: view.lead,
            body: view.body(timelineMax: Self.timelineMax), asOf: now)
    }
}

private struct SubscriptionView {
    let id: String
    let facts: SubscriptionPageQueries.Facts?
    let items: [SubscriptionPageQueries.Item]
    let changes: [SubscriptionPageQueries.Change]
    let money: [SubscriptionPageQueries.Entry]
    let dependents: [SubscriptionPageQueries.Dependent]
    let claims: [SubscriptionPageQueries.Claim]
    let timeline: [TimelineQueries.Line]
    let now: Int64

    var lead: HTML {
        guard let facts else {
            return
                "<p class=\"lead\">Known from a batch alone: no statement of the App Store was received yet.</p>\n"
        }
        let status = statusWords(facts.status, isRetrying: facts.isInBillingRetry)
        let renews: HTML =
            switch facts.autoRenews {
            case true?: facts.renewalAt.map { "renews on \(.time($0))" } ?? "renews"
            case false?:
                facts.renewalAt.map { "does not renew after \(.time($0))" } ?? "does not renew"
            case nil: "not known whether it renews"
            }
        return "<p class=\"lead\">\(status) · \(renews)</p>\n"
    }

    func body(timelineMax: Int) -> HTML {
        section("What is known", known)
            + section("Price changes: forecast against fact", changesTable)
            + section("Items that fall if another one is declined", claimsTable)
            + section("Charges and refunds", moneyTable, after: moneyNote)
            + section("Dependents", dependentsTable)
            + timelineSection(timelineMax)
    }

    private var known: HTML {
        guard let facts else { return .none }
        let customer: HTML =
            facts.customer.map {
                .link("/search?q=\(encoded($0))", $0)
            } ?? .none
        let table = HTMLTable(
            "Items",
            [
                .text("Item"), .number("Price now"), .number("Price at the renewal"),
                .text("Renews"),
            ],
            items.map { item in
                [
                    whole(item.sku), price(item.currentPrice), price(item.renewalPrice),
                    HTML(item.renews.map { $0 ? "yes" : "no" } ?? "not known"),
                ]
            })
        return definitions([
            ("Product", HTML(facts.productID ?? "")), ("Storefront", HTML(facts.storefront ?? "")),
            ("Billing period", HTML(facts.period ?? "")), ("Customer token", customer),
            ("Running since", .time(facts.startedAt, none: "")),
            ("Newest statement", .time(facts.signedAt, none: "")),
            ("Every increase known since", .time(facts.knownSince, none: "")),
        ]) + table.html
    }

    private func price(_ milliunits: Int64?) -> HTML {
        guard let milliunits, let currency = facts?.currency else { return "not known" }
        return whole(amount(milliunits, currency))
    }

    private var changesTable: HTMLTable {
        HTMLTable(
            "Price changes",
            [
                .text("Batch"), .text("Item"), .number("From"), .number("To"), .text("State"),
                .text("Forecast of consent"), .text("What came"), .text("Forecast for"),
                .text("In effect or due"),
            ], changes.map(row))
    }

    private func row(_ change: SubscriptionPageQueries.Change) -> [HTML] {
        let isLater = (change.effectiveAt ?? change.dueEffectiveAt) > change.forecastEffectiveAt
        let forecast = Consent(rawValue: change.forecastConsent)?.forecastWords(
            isUndo: change.isUndo)
        let isOver = ChangeState(rawValue: change.state)?.isFinal ?? false
        let came =
            switch change.cameConsent {
            case "required"?: "was asked"
            case "not_required"?: "was informed"
            case "none"?: "nobody was asked"
            case .some(let other): spaced(other)
            case nil: isOver ? "nothing was told" : "not known yet"
            }
        let name: HTML =
            change.currentSKU.map { "\(whole(change.sku))<span class=\"sub\">now \($0)</span>" }
            ?? whole(change.sku)
        let reason: HTML =
            change.reason.map { "<span class=\"sub\">\(reasonWords($0))</span>" } ?? .none
        let undo: HTML = change.isUndo ? "<span class=\"sub\">takes back a change</span>" : .none
        // An ended change cancels no further dependents; the dependents' table shows the others.
        let falls: HTML =
            isOver || change.dependents.isEmpty
            ? .none
            : "<span class=\"sub\">falls with it: \(change.dependents.joined(separator: ", "))</span>"
        let when: HTML =
            change.effectiveAt.map { "\(.time($0)) <span class=\"sub\">in effect</span>" }
            ?? (isOver ? "–" : "\(.time(change.dueEffectiveAt)) <span class=\"sub\">due</span>")
        return [
            .link(batchAddress(change.batchID), change.batchName), "\(name)\(falls)",
            whole(amount(change.oldPrice, change.currency)),
            whole(amount(change.newPrice, change.currency)),
            "\(spaced(change.state))\(reason)\(undo)", HTML(forecast ?? change.forecastConsent),
            HTML(came), .time(change.forecastEffectiveAt),
            isLater && !(isOver && change.effectiveAt == nil)
                ? "\(when)<span class=\"sub\">later than forecast</span>" : when,
        ]
    }

    private var claimsTable: HTMLTable {
        HTMLTable(
            "Items that fall if another one is declined",
            [.text("Item"), .text("Falls with"), .text("Batch"), .text("State")],
            claims.map { claim in
                [
                    whole(claim.sku),
                    "\(whole(claim.parentSKU)) on \(subscriptionLink(claim.parentID))",
                    .link(batchAddress(claim.batchID), claim.batchName),
                    HTML(spaced(claim.state)),
                ]
            })
    }

    private var moneyTable: HTMLTable {
        let sums = Dictionary(grouping: money) { $0.currency }.sorted { $0.key < $1.key }.map {
            currency, entries -> [HTML] in
            let sum = entries.reduce(Int128(0)) { $0 + Int128($1.milliunits) }
            return ["Sum", "", "", HTML(amount(sum, currency)), "", ""]
        }
        let isCut = money.count > Site.moneyMax
        return HTMLTable(
            "Charges and refunds, the newest first",
            [
                .text("When"), .text("What"), .text("Item"), .number("Amount"),
                .text("Explained as"), .text("Evidence"),
            ],
            money.prefix(Site.moneyMax).map { entry in
                [
                    .time(entry.at),
                    HTML(entry.kind + (entry.isCorrection ? ", a correction" : "")),
                    whole(entry.sku), whole(amount(entry.milliunits, entry.currency)),
                    entry.explanation, evidence(entry.evidenceID),
                ]
            }, totals: isCut ? [] : sums)
    }

    private var moneyNote: HTML {
        guard money.count > Site.moneyMax else { return .none }
        return """
            <p class="note">The newest \(Site.moneyMax) lines, not added up; the report of \
            <a href="/reports/money">money</a> has all.</p>

            """
    }

    private var dependentsTable: HTMLTable {
        HTMLTable(
            "Dependents that fall with an item that was declined",
            [
                .text("Dependent"), .text("Of"), .text("State"), .text("Why"), .text("Recorded"),
                .text("Settled"), .text("Evidence"),
            ],
            dependents.map { one in
                let target: HTML =
                    one.targetID.map { $0 == id ? .none : " on \(subscriptionLink($0))" } ?? .none
                let parent: HTML =
                    one.parentID == id ? .none : " on \(subscriptionLink(one.parentID))"
                let detail: HTML =
                    one.detail.map { "<span class=\"sub\">\($0)</span>" } ?? .none
                return [
                    "\(whole(one.sku))\(target)", "\(whole(one.parentSKU))\(parent)",
                    "\(spaced(one.state))\(detail)", HTML(spaced(one.cause)),
                    .time(one.requestedAt), .time(one.settledAt),
                    one.evidenceID.map(evidence) ?? .none,
                ]
            })
    }

    private func timelineSection(_ most: Int) -> HTML {
        let table = HTMLTable(
            "Timeline, the oldest first",
            [
                .text("When"), .text("What happened"), .text("Item"), .text("Detail"),
                .text("Evidence"),
            ],
            timeline.suffix(most).map { line in
                [
                    .time(line.at), "\(line.words)<span class=\"sub\">\(spaced(line.kind))</span>",
                    whole(line.sku ?? ""),
                    line.until.map { "until \(.time($0))" } ?? HTML(line.detailWords),
                    evidence(line.evidenceID),
                ]
            })
        let cut: HTML =
            timeline.count > most
            ? """
            <p class="note">The newest \(most) of \(counted(Int64(timeline.count))) lines; <code>repricer timeline \(id)</code> \
            prints all.</p>

            """ : .none
        let note: HTML = """
            <p class="note">The evidence of a line names a notification, a status, a call or a decision. What the App \
            Store signed prints <code>repricer evidence ID</code> of a notification, and \
            <code>repricer evidence ID --subscription \(id)</code> of a call.</p>

            """
        return section("Timeline, the oldest first", table, after: cut + note)
    }

    private func evidence(_ id: String) -> HTML {
        id.isEmpty ? .none : "<code class=\"long\">\(id)</code>"
    }
}

/// Keeps a short word or amount on one line, where it is easier to read. A longer text may break.
private func whole(_ text: String) -> HTML {
    text.isEmpty || text.count > 18 ? HTML(text) : "<span class=\"id\">\(text)</span>"
}

/// The meaning of Apple's number for a subscription's status.
func statusWords(_ status: Int?, isRetrying: Bool = false) -> String {
    switch status {
    case 1: isRetrying ? "Active, a charge failed and is tried again" : "Active"
    case 2: "Expired"
    case 3: "A charge failed and is tried again"
    case 4: "In the grace period after a charge that failed"
    case 5: "Revoked"
    case .some(let other): "Status \(other)"
    case nil: "Status not known"
    }
}

extension SubscriptionPageQueries.Entry {
    fileprivate var explanation: HTML {
        let known = HTML(spaced(explainedAs ?? ""))
        guard let exception else { return known }
        return
            "\(known)\(known.isEmpty ? "" : " ")<span class=\"badge alarm\">\(spaced(exception))</span>"
    }
}
