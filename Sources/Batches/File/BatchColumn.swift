/// The columns of a batch file, and the keys of its NDJSON form.
package enum BatchColumn: String, Hashable, Sendable, CaseIterable {
    case originalTransactionID = "original_transaction_id"
    case sku
    case price
    case priceMilliunits = "price_milliunits"
    case currency
    case storefront
    case dependentSKUs = "dependent_skus"
    case expectedPrice = "expected_price"
    case effectiveOnOrAfter = "effective_on_or_after"
    /// Our own columns in a file of refused rows. They are skipped when such a file is submitted again.
    case rejectCode = "reject_code"
    case rejectReason = "reject_reason"
    case faults

    var isIgnored: Bool { self == .rejectCode || self == .rejectReason || self == .faults }

    static let required: [BatchColumn] = [.originalTransactionID, .sku, .currency]
}

/// The unit of the prices of a batch. A whole file has one.
package enum BatchPriceUnit: Hashable, Sendable {
    case decimal, milliunits

    package var column: BatchColumn {
        switch self {
        case .decimal: .price
        case .milliunits: .priceMilliunits
        }
    }
}
