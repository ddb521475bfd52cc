internal import JSON

extension PlanRow {
    /// One line of `plan --rows`, without the line feed. Every key is always there, in a fixed order.
    package var json: String { String(decoding: jsonBytes, as: UTF8.self) }

    /// The same as UTF-8.
    package var jsonBytes: [UInt8] {
        var json = JSONWriter(capacity: 1500)
        json.object { json in
            writeRow(&json)
            writeVerdict(&json)
            json.member("consent_turns_at", turn?.at.text)
            json.member("consent_turns_to", turn?.consent.rawValue)
            json.member("judged_at", judgedAt?.text)
            json.member("facts_at", factsAt?.text)
            json.member("known_since", knownSince?.text)
            json.flag("stale", isStale)
            json.texts("faults", faults.map(\.rawValue))
            json.member("at_risk_milliunits", atRisk)
            json.key("at_risk_elsewhere", writeAtRiskElsewhere)
            json.member("renewal_at", renewalAt?.text)
            json.member("notice_at", noticeAt?.text)
            json.member("send_after", sendAfter?.text)
            json.member("send_by", sendBy?.text)
            json.member("effective_at", effectiveAt?.text)
            json.member("threshold_source", thresholdSource?.rawValue)
            json.texts("dependent_skus", dependentSKUs)
            json.member("expected_price_milliunits", expectedPrice)
            json.member("effective_on_or_after", effectiveOnOrAfter?.text)
            json.member("message", fault?.message)
            json.member("remedy", fault?.remedy)
        }
        return json.bytes
    }

    private func writeRow(_ json: inout JSONWriter) {
        json.member("line", line > 0 ? Int64(line) : nil)
        json.member("original_transaction_id", originalTransactionID)
        json.member("sku", sku)
        json.member("code", code?.rawValue)
        json.member("direction", direction?.rawValue)
        json.member("currency", currency)
        json.member("storefront", storefront)
        json.member("period", period)
        json.member("current_price_milliunits", currentPrice)
        json.member("new_price_milliunits", newPrice)
        json.member("seats", knownSeats)
    }

    private func writeVerdict(_ json: inout JSONWriter) {
        json.member("consent", consent?.rawValue)
        json.texts("reasons", reasons.map(\.rawValue))
        json.texts("not_known", notKnown.map(\.rawValue))
        json.key("rules", writeRules)
    }

    private func writeAtRiskElsewhere(_ json: inout JSONWriter) {
        json.list(atRiskElsewhere) { charge, json in
            json.object { json in
                json.member("original_transaction_id", charge.originalTransactionID)
                json.member("sku", charge.sku)
                json.member("currency", charge.currency)
                json.member("period", charge.period)
                json.member("milliunits", charge.amount)
            }
        }
    }

    private func writeRules(_ json: inout JSONWriter) {
        rules.write(&json)
    }
}

extension [RuleAnswer] {
    /// The answers as they are stored with a change: a JSON array.
    package var json: String {
        var json = JSONWriter()
        write(&json)
        return json.text
    }

    fileprivate func write(_ json: inout JSONWriter) {
        json.list(self) { answer, json in
            json.object { json in
                json.text("rule", answer.rule.rawValue)
                json.member("answer", answer.answer)
                json.key("inputs") { json in
                    json.object { json in
                        for input in answer.inputs { input.write(&json) }
                    }
                }
            }
        }
    }
}

extension RuleAnswer.Input {
    fileprivate func write(_ json: inout JSONWriter) {
        json.label(name)
        switch value {
        case .flag(let flag): json.value(flag)
        case .number(let number): json.value(number)
        case .text(let text): json.value(text)
        case .instant(let instant): json.value(instant.text)
        case .missing: json.finished("null")
        }
    }
}
