"""Mutants that change no answer."""
# Mutants that change nothing that anybody could see, each with its reason.
HARMLESS = {
    "ConsentRules.swift: var isKnownFromStart = true":
        "only the question of LargestWithoutConsent leaves it out, and reads the threshold alone",
    "ConsentRules.swift: difference >= currentPrice || difference > currentPrice - difference":
        "where they are equal, the second comparison is with 0, and an increase is more",
    "ShownIncreases.swift: let first = (-4...2).first {": "nobody is told after the next renewal",
    "ShownIncreases.swift: return max(0, (first ?? 1) + 3)": "nobody is told after the next renewal",
    'RowGroup.swift: return facts.period == Period.month.text && facts.storefront.map { $0 != "XXX" } == true':
        "in South Korea, too, all that can go see the same conversions, and so one renewal",
    "RenewalSearch.swift: for _ in 0...(200 - turns.count) {": "a bound that no search comes near",
    "RuleCourse.swift: return start >= from && !later.contains { start < $0.from || $0.from <= end }":
        "says less often that nothing changes; then the rules are looked up again",
    "RenewalSearch.swift: let inTime = turns.filter { call <= $0 && $0 <= last }":
        "at the call itself nothing has turned",
    "RenewalSearch.swift: call = max(now, renewals.renewal(target - 2).advanced(by: -lead))":
        "begins to search a renewal earlier",
    "RenewalCalendar.swift: var index = max(1, estimate(bounded) - 1)": "what lies after the known renewal is a later one",
    "RenewalCalendar.swift: guard instant >= knownAt else { return 0 }": "at the known renewal itself the search finds it, too",
    "RenewalCalendar.swift: var index = min(0, estimate(bounded) - 1)": "begins to search a renewal earlier, or at the first",
    "RenewalCalendar.swift: return distance >= 1 && distance % months == 0 && reached == known ? start : nil":
        "where the start is the renewal itself, both have the same day",
    "RuleCourse.swift: guard instant > from else { return earlier?.rules(at: instant) ?? first }":
        "at the very instant both are the same",
    "EarlierIncrease.swift: (left.at, left.sku, left.isSigned ? 2 : 0) < (right.at, right.sku, right.isSigned ? 1 : 0)":
        "of two that are alike in all three either may be named",
    "EarlierIncrease.swift: (left.at, left.sku, left.isSigned ? 1 : 0) < (right.at, right.sku, right.isSigned ? 1 : 1)":
        "of two that are alike in all three either may be named",
    "RenewalSearch.swift: call = min(last.advanced(by: 1), turn ?? last.advanced(by: 2))":
        "without a turn the first of the two decides",
    "RenewalSearch.swift: let lead = max(lead(of: candidate) ?? 1, Instant.millisecondsPerDay)":
        "a day is more than both",
    "RenewalSearch.swift: for index in start..<(start + 100) {":
        "a bound that no search comes near",
    "RenewalSearch.swift: for index in start...(start + 101) {":
        "a bound that no search comes near",
    "RenewalSearch.swift: for index in start...(start + 99) {":
        "a bound that no search comes near",
    "RenewalSearch.swift: for _ in 0..<(200 + turns.count) {":
        "a bound that no search comes near",
    "RenewalSearch.swift: for _ in 0...(201 + turns.count) {":
        "a bound that no search comes near",
    "RenewalSearch.swift: for _ in 0...(199 + turns.count) {":
        "a bound that no search comes near",
    "Scenario/LargestWithoutConsent.swift: guard over <= Int64.max / 4 / currency.smallestStep else { return nil }":
        "a bound that no search comes near",
    "RenewalCalendar.swift: var index = max(0, estimate(bounded) - 2)":
        "begins to search a renewal earlier",
    "RenewalSearch.swift: for turn in turns.reversed() where turn > call && turn <= end {":
        "a turn at the renewal itself is later than any call",
    "RenewalSearch.swift: for turn in turns.reversed() where turn >= call && turn < end {":
        "a turn at the call is judged as the call is",
    "RowGroup.swift: rows.count < 8":
        "both ways find the same lines",
    "RowGroup.swift: rows.count <= 9":
        "both ways find the same lines",
    "RowGroup.swift: rows.count <= 7":
        "both ways find the same lines",
    'RowGroup.swift: return facts.period == Period.month.text && facts.storefront.map { $0 != "KOR" } != true':
        "in South Korea, too, all that can go see the same conversions, and so one renewal; without a storefront none can go",
    'RowGroup.swift: return facts.period == Period.month.text && facts.storefront.map { $0 == "KOR" } == true':
        "in South Korea, too, all that can go see the same conversions, and so one renewal; without a storefront none can go",
    'RowGroup.swift: return facts.period == Period.month.text && facts.storefront.map { $0 != "KOR" } == false':
        "in South Korea, too, all that can go see the same conversions, and so one renewal; without a storefront none can go",
    "RuleCourse.swift: guard one != other else { return false }":
        "says less often that nothing changes; then the rules are looked up again",
    "RuleCourse.swift: return start >= from && !later.contains { start <= $0.from && $0.from <= end }":
        "says less often that nothing changes; then the rules are looked up again",
    "RuleCourse.swift: return start > from && !later.contains { start < $0.from && $0.from <= end }":
        "says less often that nothing changes; then the rules are looked up again",
    "RuleCourse.swift: (from, first, later, earlier) = (.distantFuture, rules, [], nil)":
        "says less often that nothing changes; then the rules are looked up again",
    "RuleCourse.swift: earlier = EarlierRules(rules, starts: starts.filter { $0 < now })":
        "it is asked about instants before that start alone",
    "RuleCourse.swift: without known[start] = rules":
        "only forgets what it has looked up",
    "RulesInForce.swift: return rows.values.filter { $0.kind == kind }.sorted { order($0.key) <= order($1.key) }":
        "no two have the same key",
    "Scenario/LargestWithoutConsent.swift: var over = min(2, current / currency.smallestStep)":
        "other steps of the search, which ends at the same price",
    "Scenario/LargestWithoutConsent.swift: var over = max(3, current / currency.smallestStep)":
        "other steps of the search, which ends at the same price",
    "Scenario/LargestWithoutConsent.swift: var over = max(1, current / currency.smallestStep)":
        "other steps of the search, which ends at the same price",
    "Scenario/LargestWithoutConsent.swift: without free = over":
        "other steps of the search, which ends at the same price",
    "Scenario/LargestWithoutConsent.swift: over *= 3":
        "other steps of the search, which ends at the same price",
    "Scenario/LargestWithoutConsent.swift: let middle = free + (over - free) / 3":
        "other steps of the search, which ends at the same price",
    "ConsentRules.swift: guard currentPrice >= 0, difference >= 0 else { return nil }":
        "a price of 0 fails the next condition",
    "IncreaseCase.swift: return turns.filter { $0 >= now }.sorted()":
        "only turns after a call are asked for, and no call is before now",
    "RenewalCalendar.swift: return distance > 0 && distance % months == 0 && reached == known ? start : nil":
        "where the start is in the month of the renewal, both have the same day",
    "RowGroup.swift: guard !waiting.isEmpty || rows.count >= 1 && (!areAllOfOneRenewal || hasDependentsAsRows)":
        "the long way gives a single row the same plan",
    "RowGroup.swift: guard !waiting.isEmpty || rows.count > 1 || (!areAllOfOneRenewal || hasDependentsAsRows)":
        "the long way gives rows of one renewal the same plans",
    "RowGroup.swift: case .sandbox: return false":
        "in the Sandbox all increases take effect at one renewal, and the long way finds the same",
    "RowGroup.swift: fileprivate var isIncreaseThatIsRefused: Bool { fault != nil || direction == .increase }":
        "a row that can go says the same when it is planned again",
    "AtRisk.swift: guard dependencies != nil else { return true }":
        "without dependents the long way gives the same plans",
    "AtRisk.swift: guard let item = items.last(where: { $0.sku == sku }), let price = item.chargedPrice,":
        "a subscription has an item once",
    "RowCase.swift: item = group.facts.items.last { $0.sku == row.sku }":
        "a subscription has an item once",
    "WaitingIncreases.swift: let item = facts.items.last { $0.sku == change.sku }":
        "a subscription has an item once",
    "RowCase.swift: return row.newPrice >= current ? .increase : .decrease":
        "equal prices have no direction",
    "RowCase.swift: if let open = context.openChanges.last(where: { $0.sku == row.sku && !$0.state.isFinal }) {":
        "an item has one open change",
    "RowCase.swift: let decimals = Currency.apple.last { $0.code == code }?.decimals ?? 2":
        "a currency is listed once",
    "Renewals.swift: guard instant >= knownAt else { return 0 }":
        "at the known renewal itself the division gives 0, too",
    "RenewalSearch.swift: if target >= first {":
        "the renewal before the next one lies behind, and no call does",
    "RenewalSearch.swift: for turn in turns.reversed() where turn > call || turn < end {":
        "after a renewal no call reaches it; before a call the last turn is judged as the call is",
    "JudgeForSending.swift: if let fault = faults.min(by: { $0.code.rank <= $1.code.rank }) { return .ineligible(fault) }":
        "a plan without expected prices never drifts, so the codes differ",
    "JudgeForSending.swift: guard let plan = judge(rows: [row], facts: facts, context: others).last else {":
        "one row in gives one row out",
    "JudgeForSending.swift: package var rank: Int { RowCode.allCases.firstIndex(of: self) ?? 1 }":
        "every code is in the list",
    "RuleCourse.swift: later = starts.filter { $0 >= now }.map { ($0, rules.inForce(at: $0)) }":
        "what comes into force now is in force",
    "ThresholdEstimator.swift: base = thresholds.last {":
        "one row of the USA is in force",
    "ThresholdInForce.swift: static let parts: Int128 = 1000000001":
        "a coarser or finer grain than a billionth of a milliunit",
    "ThresholdInForce.swift: static let parts: Int128 = 999999999":
        "a coarser or finer grain than a billionth of a milliunit",
    "ThresholdEstimator.swift: return whole * parts + (rest * parts - divisor / 2) / divisor":
        "a billionth of a milliunit less",
    "ThresholdEstimator.swift: return whole * parts + (rest * parts + divisor * 2) / divisor":
        "two billionths of a milliunit more",
    "ThresholdEstimator.swift: return whole * parts + (rest * parts + divisor / 3) / divisor":
        "a billionth of a milliunit less",
    "ThresholdEstimator.swift: return whole * parts + (rest * parts + divisor / 1) / divisor":
        "a billionth of a milliunit more",
    "ThresholdEstimator.swift: guard divisor > 1 else { return nil }":
        "an amount of a billionth of a milliunit",
    "RulesInForce.swift: error = threshold.estimate?.error ?? 1":
        "every estimate has its figures",
    "RulesInForce.swift: rows = threshold.estimate?.rows ?? 1":
        "every estimate has its figures",
    "Scenario/LargestWithoutConsent.swift: period: kind == .annual ? .year : .week, currentPrice: current,":
        "the threshold asks for the kind of period alone",
    "Scenario/LargestWithoutConsent.swift: newPrice: current + steps * currency.smallestStep, now: .distantFuture)":
        "the threshold asks for no instant",
    "RowCase.swift: renewal >= running, item.increase == nil, item.offer == nil":
        "a row at the price that is kept changes nothing, and is told that first",
    "RowCase.swift: if let raise, direction != .decrease, row.newPrice <= raise {":
        "a row at the price that renews changes nothing, and is told that first",
    "Scenario/LargestWithoutConsent.swift: period: kind != .annual ? .year : .month, currentPrice: current,":
        "the amount is that of the figures, which have their kind",
    "Scenario/LargestWithoutConsent.swift: period: kind == .annual ? .month : .year, currentPrice: current,":
        "the amount is that of the figures, which have their kind",
    "Scenario/LargestWithoutConsent.swift: period: kind == .annual ? .month : .month, currentPrice: current,":
        "the amount is that of the figures, which have their kind",
    "Scenario/LargestWithoutConsent.swift: period: kind == .nonannual ? .year : .month, currentPrice: current,":
        "the amount is that of the figures, which have their kind",
    "Scenario/LargestWithoutConsent.swift: newPrice: first + steps * currency.smallestStep, now: .distantFuture)":
        "the question reads the threshold alone",
    "RowGroup.swift: let prices = [plan.currentPrice ?? 1, row.newPrice]":
        "neither nothing nor one is too much for the seats",
    'RowGroup.swift: newPrice: plan.newPrice ?? 1, currency: plan.currency ?? "")':
        "the direction, which alone reads the price, is taken out again",
    "WaitingIncreases.swift: guard judge.waitingSince <= judge.now else { return history }":
        "at that very instant no call has gone",
    "WaitingIncreases.swift: (reached[$0]?.sendAfter ?? judge.waitingSince) <= judge.now":
        "a call that goes at the instant of judging reaches the same renewal as one that waits until then",
    "ShownIncreases.swift: while index >= -8, renewals.renewal(index - 1) >= instant { index -= 1 }":
        "what was shown so long ago is due at the next renewal",
    "ShownIncreases.swift: while index > -9, renewals.renewal(index - 1) >= instant { index -= 1 }":
        "what was shown so long ago is due at the next renewal",
    "ShownIncreases.swift: while index > -7, renewals.renewal(index - 1) >= instant { index -= 1 }":
        "what was shown so long ago is due at the next renewal",
    "ShownIncreases.swift: let passed = min(1, firstIndex(atOrAfter: at, renewals))":
        "the search begins a renewal later, where the one before it lies before the instant",
    "AtRisk.swift: charge(of: sku, at: items.last { $0.sku == sku }?.chargedPrice)":
        "a subscription has an item once",
    "AtRisk.swift: let item = items.last { $0.sku == sku && $0.currentPrice == nil }":
        "a subscription has an item once",
    "AtRisk.swift: return rows.contains { dependentsHere($0.dependentSKUs).isDisjoint(with: items) }":
        "a row that can go and is a dependent has none of its own, and the long way gives the same plans",
    # SandboxRenewals.counted.
    "Renewals.swift: without renewals.knownAt = renewal(index)":
        "an instant before them all is at their first, wherever they are counted from",
    "JudgeForSending.swift: plan.judgedAt.map({ foreseen.from <= $0 }) ?? true":
        "a row that needs consent was judged, and says for when",
}
