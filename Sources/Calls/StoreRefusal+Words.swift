import AppStore

extension StoreRefusal {
    /// What its code means, for the log, as far as Apple documents it.
    var inWords: String {
        let code = APIErrorCode(rawValue: code)
        if code.isBareStatus {
            return "an answer of HTTP \(code.rawValue) without a code of the App Store's"
        }
        switch meaning {
        case .refresh: return "the App Store says that the consistency token is stale"
        case .haltService where code.isAboutKey:
            return "the App Store says that our key or token is refused"
        case .haltBatch: return "the App Store says that the form of the call is wrong"
        case .haltStorefront:
            return "the App Store says that the product is not set up for the storefront"
        case .suspect, .reject, .checkStatus, .haltService: break
        }
        if let meaning = code.meaning { return meaning }
        guard code.name != nil else { return "a code that Apple does not document" }
        return code.httpStatus == 404
            ? "the App Store says that it does not find what the call names"
            : "the App Store says it of the customer or the item"
    }
}

extension StoreRefusal {
    private static let messageMax = 200

    /// The cause of a halt, for people: how many subscriptions were refused, and the App Store's own message.
    package func met(by streak: RefusalStreak?) -> String {
        let isAnswer = self == .answeredInVain
        let quote = message.isEmpty ? "" : " (\"\(message.prefix(Self.messageMax))\")"
        let said = isAnswer ? "HTTP 200 without effect" : codeAndName + quote
        let came = "\(isAnswer ? "answered" : "refused") with \(said)"
        guard let streak, streak.refused > 0 else {
            return "several subscriptions in a row were \(came)"
        }
        let many = "\(streak.refused) subscriptions in a row were"
        switch streak.alike {
        case streak.refused: return "\(many) \(came)"
        case 0: return "\(many) refused, the last with \(said)"
        default: return "\(many) refused, the last \(streak.alike) with \(said)"
        }
    }
}
