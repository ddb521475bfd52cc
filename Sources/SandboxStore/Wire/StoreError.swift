/// Apple's error codes that this store answers with; the first three digits are the HTTP status.
enum StoreError: Int, Error, Hashable, Sendable, CaseIterable {
    case invalidTransactionID = 4_000_006
    case invalidOriginalTransactionID = 4_000_008
    case invalidExtendByDays = 4_000_009
    case invalidExtendReasonCode = 4_000_010
    case invalidRequestIdentifier = 4_000_011
    case startDateTooFarInPast = 4_000_012
    case startDateAfterEndDate = 4_000_013
    case invalidPaginationToken = 4_000_014
    case invalidStartDate = 4_000_015
    case invalidEndDate = 4_000_016
    case paginationTokenExpired = 4_000_017
    case invalidNotificationType = 4_000_018
    case multipleFilters = 4_000_019
    case invalidProductID = 4_000_023
    case emptyStorefronts = 4_000_027
    case invalidStorefront = 4_000_028
    case invalidStatus = 4_000_031
    case invalidAppAccountToken = 4_000_033
    case invalidCurrency = 4_000_053
    case nullRequestInfo = 4_000_079
    case nullRequestReferenceID = 4_000_080
    case invalidRequestReferenceID = 4_000_081
    case invalidConsistencyToken = 4_000_082
    case negativePrice = 4_000_086
    case skuLengthExceeded = 4_000_087
    case repeatedRequestReferenceID = 4_000_097
    case nullItems = 4_000_101
    case nullItem = 4_000_102
    case nullSKU = 4_000_105
    case nullPrice = 4_000_109
    case productAlreadyExists = 4_000_114
    case invalidSKU = 4_000_122
    case mismatchedStorefront = 4_000_133
    /// Returned only by a fault, because the sandbox's product has a price everywhere.
    case missingPricing = 4_000_134
    case changeItemNotFound = 4_000_146
    case removalOfAll = 4_000_168
    case malformedPayload = 4_000_173
    case priceChangeThroughModify = 4_000_178
    case dependentsShared = 4_000_192
    case dependentsChained = 4_000_193
    case itemRepeated = 4_000_194
    case alreadyCommunicated = 4_000_205
    case invalidPriceInIncrease = 4_000_214
    case notSetToRenew = 4_000_220
    case indiaIncrease = 4_000_221
    case unauthorized = 4_010_000
    case extensionIneligible = 4_030_004
    case maxExtension = 4_030_005
    case familySharedExtensionIneligible = 4_030_007
    case subscriptionDoesNotExist = 4_030_008
    case notEligible = 4_030_010
    case alreadyActive = 4_030_011
    case inactive = 4_030_015
    case alreadyRefunded = 4_030_021
    case migrationAfterCommunication = 4_030_027
    case accountNotFound = 4_040_001
    case accountNotFoundRetryable = 4_040_002
    case appNotFound = 4_040_003
    case appNotFoundRetryable = 4_040_004
    case originalTransactionNotFound = 4_040_005
    case originalTransactionNotFoundRetryable = 4_040_006
    case notificationURLNotFound = 4_040_007
    case testNotificationNotFound = 4_040_008
    case statusRequestNotFound = 4_040_009
    case transactionNotFound = 4_040_010
    case rateLimitExceeded = 4_290_000
    case internalError = 5_000_000
    case internalErrorRetryable = 5_000_001

    var httpStatus: Int { rawValue / 10_000 }

    var message: String { Self.messages[self] ?? "" }

    /// A test ensures that every code has a message.
    private static let messages: [StoreError: String] = [
        .invalidTransactionID: "The transaction identifier is not valid.",
        .invalidOriginalTransactionID: "The original transaction identifier is not valid.",
        .invalidExtendByDays: "The days must be 1 to 90.",
        .invalidExtendReasonCode: "The reason code must be 0 to 3.",
        .invalidRequestIdentifier: "The request identifier is not valid.",
        .startDateTooFarInPast: "The start date is too long ago.",
        .startDateAfterEndDate: "The start date is not before the end date.",
        .invalidPaginationToken: "The pagination token is not valid.",
        .invalidStartDate: "The start date is not valid.",
        .invalidEndDate: "The end date is not valid.",
        .paginationTokenExpired: "The pagination token has expired.",
        .invalidNotificationType: "The notification type is not valid.",
        .multipleFilters: "Only one of transaction identifier and type may be given.",
        .invalidProductID: "The product identifier is not valid.",
        .emptyStorefronts: "The list of storefronts is empty.",
        .invalidStorefront: "The storefront is not valid.",
        .invalidStatus: "The status is not valid.",
        .invalidAppAccountToken: "The appAccountToken must be a UUID or empty.",
        .invalidCurrency: "The currency is not valid.",
        .nullRequestInfo: "The field requestInfo is required.",
        .nullRequestReferenceID: "The field requestReferenceId is required.",
        .invalidRequestReferenceID: "The requestReferenceId must be a UUID.",
        .invalidConsistencyToken: "The consistencyToken is not the current one.",
        .negativePrice: "The price must be a positive number.",
        .skuLengthExceeded: "The SKU is longer than 128 characters.",
        .repeatedRequestReferenceID: "The requestReferenceId was used before.",
        .nullItems: "The field items is required and must not be empty.",
        .nullItem: "An element of items is null.",
        .nullSKU: "The field SKU is required.",
        .nullPrice: "The field price is required.",
        .productAlreadyExists: "The SKU is already owned.",
        .changeItemNotFound: "The item to change wasn't found.",
        .mismatchedStorefront: "The storefront is not the subscription's.",
        .missingPricing: "Pricing isn't configured for the storefront.",
        .malformedPayload: "The payload is malformed.",
        .priceChangeThroughModify: "A price can't be changed by modifying items.",
        .dependentsShared: "dependentSKUs can't be shared between several SKUs.",
        .dependentsChained: "dependentSKUs can't have dependents of their own.",
        .itemRepeated: "The same SKU can't be repeated in a request.",
        .alreadyCommunicated: "The price increase has already been communicated.",
        .invalidPriceInIncrease: "The price of an item subject to an increase was invalid.",
        .notSetToRenew: "The SKU must be one that is set to renew.",
        .indiaIncrease: "Price increases are not supported in India.",
        .unauthorized: "Unauthorized.",
        .extensionIneligible: "The subscription's state allows no extension.",
        .maxExtension: "The subscription had all its extensions.",
        .familySharedExtensionIneligible: "A family member's subscription can't be extended.",
        .subscriptionDoesNotExist: "The subscription doesn't exist.",
        .notEligible: "The subscription isn't eligible for the requested change.",
        .alreadyActive: "The subscription is already active.",
        .migrationAfterCommunication:
            "Migration isn't allowed: a price increase was already communicated.",
        .accountNotFound: "Account not found.",
        .accountNotFoundRetryable: "Account not found. Please try again.",
        .appNotFound: "App not found.",
        .appNotFoundRetryable: "App not found. Please try again.",
        .originalTransactionNotFound: "Original transaction id not found.",
        .originalTransactionNotFoundRetryable:
            "Original transaction id not found. Please try again.",
        .notificationURLNotFound: "No URL for server notifications is set.",
        .testNotificationNotFound: "Test notification not found.",
        .statusRequestNotFound: "No extension request of this identifier and product.",
        .transactionNotFound: "Transaction id not found.",
        .invalidSKU: "The SKU is not valid.",
        .removalOfAll: "At least one item must stay.",
        .inactive: "The subscription is not active.",
        .alreadyRefunded: "The transaction was refunded already.",
        .rateLimitExceeded: "Rate limit exceeded.",
        .internalError: "An unknown error occurred.",
        .internalErrorRetryable: "An unknown error occurred. Please try again.",
    ]

    var body: String { "{\"errorCode\":\(rawValue),\"errorMessage\":\"\(message)\"}" }
}
