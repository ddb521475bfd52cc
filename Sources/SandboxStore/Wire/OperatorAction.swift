/// An action on a subscription by `POST /sandbox/act`: of the subscriber in the app with a request signed by the
/// developer, or of the developer's server.
struct OperatorAction: Hashable, Sendable {
    struct Item: Hashable, Sendable {
        /// The item changed; nil adds one.
        var currentSKU: String?
        var sku: String
        /// nil leaves the price unchanged.
        var price: Int64?
        /// An offer's price, and for how many periods it applies.
        var offerPrice: Int64?
        var offerPeriods: Int?
    }

    /// An item that is refunded.
    struct Refund: Hashable, Sendable {
        var sku: String
        /// Whether its service ends with it.
        var revokes = false
        /// Whether only the remaining time is refunded instead of the whole price.
        var isProrated = false
    }

    enum Kind: Hashable, Sendable {
        /// Turns the renewal on again, for these items; all where none is named.
        case reactivate([String])
        case modify(retainsCycle: Bool, items: [Item], removed: [String])
        /// Change Subscription Metadata of one item's SKU: at once, or listed now and charged from the renewal on.
        case rename(from: String, to: String, atRenewal: Bool = false)
        /// Migrate to Advanced Commerce: every item gets the suffix.
        case migrate(suffix: String)
        case consent
        case turnOff
        case turnOn
        /// Refunds items of the named transaction. Without items it refunds the whole subscription, which ends.
        case refund([Refund])
        case declineRefund
        /// The customer's account moves to another storefront at the next renewal, with these prices by SKU.
        case move(storefront: String, prices: [String: Int64])
    }

    static let kinds =
        "reactivate, modify, rename, migrate, consent, turn_off, turn_on, refund, decline_refund, move"

    var subscription: String
    var kind: Kind

    /// A sentence says what is wrong with the body.
    static func parse(_ body: [UInt8]) -> Result<OperatorAction, Fault> {
        guard let fields = JSONValue.parse(body)?.object else {
            return .failure(Fault("the body is no JSON object"))
        }
        guard let subscription = fields.present("subscription")?.string else {
            return .failure(Fault("subscription is missing"))
        }
        let texts = { (name: String) in
            (fields.present(name)?.array ?? []).compactMap(\.string)
        }
        let kind: Kind
        switch fields.present("action")?.string {
        case "reactivate": kind = .reactivate(texts("items"))
        case "modify":
            let items = (fields.present("items")?.array ?? []).compactMap(\.object).compactMap(item)
            kind = .modify(
                retainsCycle: fields.present("retainBillingCycle") != .bool(false), items: items,
                removed: texts("removeItems"))
        case "rename":
            guard let from = fields.present("currentSKU")?.string,
                let to = fields.present("SKU")?.string
            else { return .failure(Fault("rename needs currentSKU and SKU")) }
            let isLater = fields.present("effective")?.string == "NEXT_BILL_CYCLE"
            kind = .rename(from: from, to: to, atRenewal: isLater)
        case "migrate": kind = .migrate(suffix: fields.present("suffix")?.string ?? "_ACA")
        case "consent": kind = .consent
        case "turn_off": kind = .turnOff
        case "turn_on": kind = .turnOn
        case "refund":
            let items = (fields.present("items")?.array ?? []).compactMap(\.object)
            kind = .refund(items.compactMap(refund))
        case "decline_refund": kind = .declineRefund
        case "move":
            guard let storefront = fields.present("storefront")?.string,
                Markets.byStorefront[storefront] != nil
            else { return .failure(Fault("move needs a storefront that the store knows")) }
            let prices = (fields.present("prices")?.object ?? [:]).compactMapValues(\.integer)
            kind = .move(storefront: storefront, prices: prices)
        case .some, .none: return .failure(Fault("unknown action; there are \(kinds)"))
        }
        return .success(OperatorAction(subscription: subscription, kind: kind))
    }

    private static func refund(_ fields: [String: JSONValue]) -> Refund? {
        fields.present("SKU")?.string.map {
            Refund(
                sku: $0, revokes: fields.present("revoke") == .bool(true),
                isProrated: fields.present("refundType")?.string == "PRORATED")
        }
    }

    struct Fault: Error, Hashable, Sendable {
        var text: String

        init(_ text: String) { self.text = text }
    }

    private static func item(_ fields: [String: JSONValue]) -> Item? {
        guard let sku = fields.present("SKU")?.string else { return nil }
        let offer = fields.present("offer")?.object
        return Item(
            currentSKU: fields.present("currentSKU")?.string, sku: sku,
            price: fields.present("price")?.integer, offerPrice: offer?.present("price")?.integer,
            offerPeriods: offer?.present("periodCount")?.integer.map { Int($0) })
    }
}
