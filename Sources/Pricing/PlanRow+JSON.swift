extension PlanRow {
    /// One line of `plan --rows`, without the line feed; every key is always there, in a fixed order.
    package var json: String {
        JSONText.object([
            ("line", line > 0 ? "\(line)" : "null"),
            ("original_transaction_id", JSONText.string(originalTransactionID)),
            ("sku", JSONText.string(sku)),
            ("code", JSONText.string(code?.rawValue)),
            ("direction", JSONText.string(direction?.rawValue)),
            ("currency", JSONText.string(currency)),
            ("storefront", JSONText.string(storefront)),
            ("period", JSONText.string(period)),
            ("current_price_milliunits", JSONText.number(currentPrice)),
            ("new_price_milliunits", JSONText.number(newPrice)),
            ("consent", JSONText.string(consent?.rawValue)),
            ("reasons", JSONText.array(reasons.map { JSONText.string($0.rawValue) })),
            ("rules", rulesJSON),
            ("renewal_at", JSONText.string(renewalAt?.text)),
            ("notice_at", JSONText.string(noticeAt?.text)),
            ("send_after", JSONText.string(sendAfter?.text)),
            ("send_by", JSONText.string(sendBy?.text)),
            ("effective_at", JSONText.string(effectiveAt?.text)),
            ("threshold_source", JSONText.string(thresholdSource?.rawValue)),
            ("dependent_skus", JSONText.array(dependentSKUs.map { JSONText.string($0) })),
            ("expected_price_milliunits", JSONText.number(expectedPrice)),
            ("effective_on_or_after", JSONText.string(effectiveOnOrAfter?.text)),
            ("message", JSONText.string(fault?.message)),
            ("remedy", JSONText.string(fault?.remedy)),
        ])
    }

    /// The `rules` array alone, as it is stored with a change.
    package var rulesJSON: String {
        JSONText.array(
            rules.map { answer in
                JSONText.object([
                    ("rule", JSONText.string(answer.rule.rawValue)),
                    ("answer", answer.answer ? "true" : "false"),
                    (
                        "inputs",
                        JSONText.object(answer.inputs.map { ($0.name, $0.value.json) })
                    ),
                ])
            })
    }
}

extension RuleAnswer.Value {
    var json: String {
        switch self {
        case .flag(let flag): flag ? "true" : "false"
        case .number(let number): "\(number)"
        case .text(let text): JSONText.string(text)
        case .instant(let instant): JSONText.string(instant.text)
        case .missing: "null"
        }
    }
}

/// Just enough JSON to write a plan without a library.
enum JSONText {
    static func object(_ members: [(String, String)]) -> String {
        "{" + members.map { "\(string($0.0)):\($0.1)" }.joined(separator: ",") + "}"
    }

    static func array(_ elements: [String]) -> String {
        "[" + elements.joined(separator: ",") + "]"
    }

    static func number(_ value: Int64?) -> String { value.map { "\($0)" } ?? "null" }

    static func string(_ text: String?) -> String {
        guard let text else { return "null" }
        var escaped = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": escaped += "\\\""
            case "\\": escaped += "\\\\"
            case "\n": escaped += "\\n"
            case "\r": escaped += "\\r"
            case "\t": escaped += "\\t"
            case "\u{0}"..."\u{1F}":
                let digits = String(scalar.value, radix: 16)
                escaped += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped + "\""
    }
}
