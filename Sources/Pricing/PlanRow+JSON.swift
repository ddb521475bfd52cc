extension PlanRow {
    /// One line of `plan --rows`, without the line feed; every key is always there, in a fixed order.
    package var json: String { String(decoding: jsonBytes, as: UTF8.self) }

    /// `json` as UTF-8.
    package var jsonBytes: [UInt8] {
        var json = JSONText()
        json.object { json in
            writeRow(&json)
            writeVerdict(&json)
            json.member("renewal_at", renewalAt?.text)
            json.member("notice_at", noticeAt?.text)
            json.member("send_after", sendAfter?.text)
            json.member("send_by", sendBy?.text)
            json.member("effective_at", effectiveAt?.text)
            json.member("threshold_source", thresholdSource?.rawValue)
            json.member("dependent_skus", dependentSKUs)
            json.member("expected_price_milliunits", expectedPrice)
            json.member("effective_on_or_after", effectiveOnOrAfter?.text)
            json.member("message", fault?.message)
            json.member("remedy", fault?.remedy)
        }
        return json.bytes
    }

    /// The `rules` array alone, as it is stored with a change: JSON as UTF-8.
    package var rulesJSONBytes: [UInt8] {
        var json = JSONText()
        writeRules(&json)
        return json.bytes
    }

    package var rulesJSON: String { String(decoding: rulesJSONBytes, as: UTF8.self) }

    private func writeRow(_ json: inout JSONText) {
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
    }

    private func writeVerdict(_ json: inout JSONText) {
        json.member("consent", consent?.rawValue)
        json.member("reasons", reasons.map(\.rawValue))
        json.key("rules")
        writeRules(&json)
    }

    private func writeRules(_ json: inout JSONText) {
        let rules = rules
        json.array { json in
            for answer in rules {
                json.object { json in
                    json.member("rule", answer.rule.rawValue)
                    json.key("answer")
                    json.raw(answer.answer ? "true" : "false")
                    json.key("inputs")
                    json.object { json in
                        for input in answer.inputs { input.write(&json) }
                    }
                }
            }
        }
    }
}

extension RuleAnswer.Input {
    fileprivate func write(_ json: inout JSONText) {
        switch value {
        case .flag(let flag):
            json.key(name)
            json.raw(flag ? "true" : "false")
        case .number(let number): json.member(name, number)
        case .text(let text): json.member(name, text)
        case .instant(let instant): json.member(name, instant.text)
        case .missing: json.member(name, String?.none)
        }
    }
}
