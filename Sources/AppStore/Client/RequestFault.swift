internal import JSON
import ServiceKit

/// Why a request would be refused. It is found before it is sent. The limits are those of Apple's pages and its own
/// libraries.
package enum RequestFault: Error, Hashable, Sendable, CustomStringConvertible {
    case notUUID(field: String)
    case badTransactionID
    case badSKU(String)
    case skuRepeated(String)
    case badStorefront(String)
    case badCurrency(String)
    case empty(field: String)
    case tooLong(field: String, charactersMax: Int)
    case daysOutOfRange(Int)
    case unknownReason(Int)
    case badRequestIdentifier
    case noItems
    case priceNegative(sku: String)
    case dependsOnItself(sku: String)
    case dependentShared(sku: String)
    case dependentChained(sku: String)

    package var description: String {
        switch self {
        case .notUUID(let field): "\(field) is no UUID"
        case .badTransactionID: "the transaction id is not 1 to 64 digits"
        case .badSKU(let sku): "the SKU '\(sku)' is empty or longer than 128 characters"
        case .skuRepeated(let sku): "the SKU '\(sku)' is given twice"
        case .badStorefront(let text):
            "the storefront '\(text)' is not three capital letters (ISO 3166-1 alpha-3)"
        case .badCurrency(let text):
            "the currency '\(text)' is not three capital letters (ISO 4217)"
        case .empty(let field): "\(field) is empty"
        case .tooLong(let field, let max): "\(field) is longer than \(max) characters"
        case .daysOutOfRange(let days): "\(days) days; the App Store extends by 1 to 90"
        case .unknownReason(let code):
            "reason \(code) is none of 0 undeclared, 1 customer satisfaction, 2 other, 3 outage"
        case .badRequestIdentifier: "the request identifier is not 1 to 128 printable characters"
        case .noItems: "no item is named"
        case .priceNegative(let sku): "the price of '\(sku)' is below 0"
        case .dependsOnItself(let sku): "'\(sku)' is its own dependent"
        case .dependentShared(let sku): "'\(sku)' is the dependent of several items"
        case .dependentChained(let sku): "'\(sku)' is a dependent and has dependents"
        }
    }
}

/// What every request to the Advanced Commerce API begins with (`RequestInfo`).
package struct CommerceRequestInfo: Hashable, Sendable {
    /// The id, which is stored before the first send and repeated only while the outcome is unknown.
    package let requestReferenceId: String
    /// The last token seen in renewal info. It is never made up.
    package let consistencyToken: String?

    package init(
        requestReferenceID: String, consistencyToken: String? = nil
    ) throws(RequestFault) {
        guard requestReferenceID.isUUID else {
            throw .notUUID(field: "requestReferenceId")
        }
        self.requestReferenceId = requestReferenceID
        self.consistencyToken = consistencyToken
    }

    func write(_ json: inout JSONWriter) {
        json.object {
            $0.text("consistencyToken", consistencyToken)
            $0.text("requestReferenceId", requestReferenceId)
        }
    }
}

/// The limits that several requests share.
enum FieldCheck {
    static let skuMax = 128
    /// The longest product id. App Store Connect's own limit is lower.
    static let productIDMax = 255

    /// nil where the id may be put into a path.
    static func fault(ofTransaction id: String) -> RequestFault? {
        (1...64).contains(id.utf8.count) && id.utf8.allSatisfy { (0x30...0x39).contains($0) }
            ? nil : .badTransactionID
    }

    static func sku(_ sku: String) throws(RequestFault) {
        guard !sku.isEmpty, sku.count <= skuMax else { throw .badSKU(sku) }
    }

    static func different(_ skus: [String]) throws(RequestFault) {
        var seen: Set<String> = []
        for sku in skus {
            guard seen.insert(sku).inserted else { throw .skuRepeated(sku) }
        }
    }

    static func storefront(_ text: String?) throws(RequestFault) {
        if let text, !isThreeCapitals(text) { throw .badStorefront(text) }
    }

    static func currency(_ text: String?) throws(RequestFault) {
        if let text, !isThreeCapitals(text) { throw .badCurrency(text) }
    }

    private static func isThreeCapitals(_ text: String) -> Bool {
        text.utf8.count == 3 && text.utf8.allSatisfy { (0x41...0x5A).contains($0) }
    }

    static func text(_ text: String, _ field: String, max: Int) throws(RequestFault) {
        guard !text.isEmpty else { throw .empty(field: field) }
        guard text.count <= max else { throw .tooLong(field: field, charactersMax: max) }
    }

    /// Checks the request identifier of an extension.
    static func requestIdentifier(_ text: String) throws(RequestFault) {
        guard (1...128).contains(text.utf8.count),
            text.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { throw .badRequestIdentifier }
    }
}
