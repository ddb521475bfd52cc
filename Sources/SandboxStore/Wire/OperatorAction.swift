/// What somebody does to a subscription, as `POST /sandbox/act` orders it: the subscriber in the app with a request
/// signed by the developer, or the developer's server.
struct OperatorAction: Hashable, Sendable {
    struct Item: Hashable, Sendable {
        /// The item changed; nil adds one.
        var currentSKU: String?
        var sku: String
        /// nil leaves it.
        var price: Int64?
        /// An offer's price and the periods that it holds.
        var offerPrice: Int64?
        var offerPeriods: Int?
    }

    enum Kind: Hashable, Sendable {
        /// Turns the renewal on again, for these items; all where none is named.
        case reactivate([String])
        case modify(retainsCycle: Bool, items: [Item], removed: [String])
        /// Change Subscription Metadata of one item's SKU.
        case rename(from: String, to: String)
        /// Migrate to Advanced Commerce: every item gets the suffix.
        case migrate(suffix: String)
        case consent
        case turnOff
        case turnOn
        case refund
    }

    static let kinds = "reactivate, modify, rename, migrate, consent, turn_off, turn_on, refund"

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
            kind = .rename(from: from, to: to)
        case "migrate": kind = .migrate(suffix: fields.present("suffix")?.string ?? "_ACA")
        case "consent": kind = .consent
        case "turn_off": kind = .turnOff
        case "turn_on": kind = .turnOn
        case "refund": kind = .refund
        case .some, .none: return .failure(Fault("unknown action; there are \(kinds)"))
        }
        return .success(OperatorAction(subscription: subscription, kind: kind))
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
