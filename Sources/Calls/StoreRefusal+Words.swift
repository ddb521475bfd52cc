import AppStore

extension StoreRefusal {
    /// What its code says, for the log: as Apple documents it, and no more than that.
    var inWords: String {
        let code = APIErrorCode(rawValue: code)
        if code.isBareStatus {
            return "an answer of HTTP \(code.rawValue) without a code of the App Store's"
        }
        switch meaning {
        case .refresh: return "the App Store says that the consistency token is stale"
        case .haltService: return "the App Store says that our key or token is refused"
        case .haltBatch: return "the App Store says that the form of the call is wrong"
        case .haltStorefront:
            return "the App Store says that the product is not set up for the storefront"
        case .suspect, .reject, .checkStatus: break
        }
        if let meaning = code.meaning { return meaning }
        guard code.name != nil else { return "a code that Apple does not document" }
        return code.httpStatus == 404
            ? "the App Store says that it does not find what the call names"
            : "the App Store says it of the customer or the item"
    }
}
