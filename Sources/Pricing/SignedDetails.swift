package import JSON

/// Fields of a signed transaction or renewal info that have no property of their own, under the App Store's names. Most
/// statements have none.
///
/// A rule, a cohort or a report may use them later; no rule does now. Enumerations and codes are kept raw, and nothing
/// here moves a change. All other fields are only in the evidence.
package struct SignedDetails: Hashable, Sendable {
    package enum Value: Hashable, Sendable {
        case text(String)
        /// A code, a count, a share, or an instant in UTC milliseconds.
        case number(Int64)
        case flag(Bool)
        case texts([String])
    }

    /// A field that is kept, by its name in the payload.
    package enum Field: String, Hashable, Sendable, CaseIterable {
        case offerIdentifier, offerPeriod, offerDiscountType
        case revocationDate, revocationReason, revocationType, revocationPercentage
        case isUpgraded, billingPlanType, additionalTransactionReason
        case eligibleWinBackOfferIds, priceIncreaseStatus, renewalBillingPlanType, renewalQuantity
    }

    /// The fields of a transaction. The discount type of its offer has a field of its own.
    package static let ofTransaction: [Field] = [
        .offerIdentifier, .offerPeriod, .revocationDate, .revocationReason, .revocationType,
        .revocationPercentage, .isUpgraded, .billingPlanType, .additionalTransactionReason,
    ]
    package static let ofRenewal: [Field] = [
        .offerIdentifier, .offerPeriod, .offerDiscountType, .eligibleWinBackOfferIds,
        .priceIncreaseStatus, .renewalBillingPlanType, .renewalQuantity,
    ]

    fileprivate struct Detail: Hashable, Sendable {
        var field: Field
        var value: Value
    }

    /// The details, each once, in the order in which they are asked for.
    private var details: [Detail] = []

    package init() {}

    /// Reads these fields of the object. A value of another type is left out, as in the rest of a payload.
    package init(_ json: JSONNode, _ fields: [Field]) {
        for field in fields {
            guard let node = json[field.name], let value = field.value(node) else { continue }
            details.append(Detail(field: field, value: value))
        }
    }

    package var isEmpty: Bool { details.isEmpty }

    package subscript(field: Field) -> Value? {
        get { details.first { $0.field == field }?.value }
        set {
            details.removeAll { $0.field == field }
            guard let newValue else { return }
            let place = details.firstIndex { $0.field.place > field.place } ?? details.endIndex
            details.insert(Detail(field: field, value: newValue), at: place)
        }
    }

    /// Removes implausible values and values that cannot be stored, and returns their fields.
    mutating func removeUnstorable() -> [Field] {
        guard !details.isEmpty else { return [] }
        let odd = details.filter { !$0.isStorable }.map(\.field)
        if !odd.isEmpty { details.removeAll { !$0.isStorable } }
        return odd
    }

    package func write(_ json: inout JSONWriter) {
        json.object {
            for detail in details {
                switch detail.value {
                case .text(let text): $0.text(detail.field.name, text)
                case .number(let number): $0.number(detail.field.name, number)
                case .flag(let flag): $0.flag(detail.field.name, flag)
                case .texts(let texts): $0.texts(detail.field.name, texts)
                }
            }
        }
    }
}

extension SignedDetails.Detail {
    private static let textBytesMax = 256
    private static let textsMax = 100

    fileprivate var isStorable: Bool {
        switch value {
        case .text(let text): Self.isStorable(text)
        case .number(let number) where field == .revocationDate:
            Instant(milliseconds: number).isOnCalendar
        // Thousandths of a percent.
        case .number(let number) where field == .revocationPercentage:
            (0...100_000).contains(number)
        case .number(let number): Int32(exactly: number) != nil
        case .flag: true
        case .texts(let texts):
            texts.count <= Self.textsMax && texts.allSatisfy(Self.isStorable)
        }
    }

    /// Whether the database can store it: its JSON holds no U+0000.
    private static func isStorable(_ text: String) -> Bool {
        text.utf8.count <= textBytesMax && !text.utf8.contains(0)
    }
}

extension SignedDetails.Field {
    fileprivate var place: Int {
        Self.allCases.firstIndex(of: self) ?? 0
    }

    /// The name in a form that is quick to compare.
    var name: StaticString {
        switch self {
        case .offerIdentifier: "offerIdentifier"
        case .offerPeriod: "offerPeriod"
        case .offerDiscountType: "offerDiscountType"
        case .revocationDate: "revocationDate"
        case .revocationReason: "revocationReason"
        case .revocationType: "revocationType"
        case .revocationPercentage: "revocationPercentage"
        case .isUpgraded: "isUpgraded"
        case .billingPlanType: "billingPlanType"
        case .additionalTransactionReason: "additionalTransactionReason"
        case .eligibleWinBackOfferIds: "eligibleWinBackOfferIds"
        case .priceIncreaseStatus: "priceIncreaseStatus"
        case .renewalBillingPlanType: "renewalBillingPlanType"
        case .renewalQuantity: "renewalQuantity"
        }
    }

    fileprivate func value(_ node: JSONNode) -> SignedDetails.Value? {
        switch self {
        case .offerIdentifier, .offerPeriod, .offerDiscountType, .revocationType, .billingPlanType,
            .additionalTransactionReason, .renewalBillingPlanType:
            node.text.map { .text($0) }
        case .revocationDate: node.int64RoundedDown.map { .number($0) }
        case .revocationReason, .revocationPercentage, .priceIncreaseStatus, .renewalQuantity:
            node.int64.map { .number($0) }
        case .isUpgraded: node.boolean.map { .flag($0) }
        case .eligibleWinBackOfferIds:
            // An empty list counts as missing.
            node.elements.map { $0.compactMap(\.text) }.flatMap { $0.isEmpty ? nil : .texts($0) }
        }
    }
}
