import Pricing
import ServiceKit

extension Commands {
    static let days = ValueOption(
        "days", "N", "by how many days, 1 to 90", isRequired: true)
    static let extensionReason = ValueOption(
        "reason", "REASON",
        "outage, customer-satisfaction, other or undeclared; Apple's numbers 3, 1, 2, 0 as well",
        suggestions: ["outage", "customer-satisfaction", "other", "undeclared"], isRequired: true)
    static let extensionNote = ValueOption("note", "TEXT", "why; kept with the request")
    static let requestID = ValueOption(
        "request-id", "UUID", "the request's identifier; the same again asks for nothing new")
    static let extensionID = Positional("EXTENSION", ExtensionFinder.meaning)
}

/// The arguments that all requests for extensions share.
enum ExtensionArguments {
    static let noteMax = 1000

    static func terms(_ arguments: ParsedArguments) throws -> ExtensionTerms {
        let text = try arguments.required(Commands.days)
        let reasonText = try arguments.required(Commands.extensionReason)
        guard let reason = ExtensionTerms.Reason(argument: reasonText) else {
            throw CommandFailure(
                .inputRejected,
                "bad_reason: \(quoted(reasonText)) is none of outage (3), customer-satisfaction (1), "
                    + "other (2), undeclared (0)")
        }
        guard let days = Int(text), let terms = ExtensionTerms(days: days, reason: reason) else {
            throw CommandFailure(
                .inputRejected,
                "bad_days: \(quoted(text)) days; the App Store extends by 1 to 90")
        }
        return terms
    }

    static func note(_ arguments: ParsedArguments) throws -> String? {
        try arguments[Commands.extensionNote].map { try short($0, "note") }
    }

    static func short(_ text: String, _ what: String) throws -> String {
        guard text.count <= noteMax else {
            throw CommandFailure(
                .inputRejected, "the \(what) is longer than \(noteMax) characters")
        }
        return text
    }

    /// The given identifier, or a new one.
    static func requestID(_ arguments: ParsedArguments) throws -> String {
        if let text = arguments[Commands.requestID] {
            guard text.isUUID else {
                throw CommandFailure(
                    .inputRejected,
                    "bad_request_id: \(quoted(text)) is no UUID; leave --request-id out for a new one"
                )
            }
            return text.lowercased()
        }
        return newID()
    }

    static func newID() -> String {
        var random = SystemRandomNumberGenerator()
        return UUIDv7.make(nowMilliseconds: SystemClock().nowMilliseconds(), random: &random)
    }

    static func storefronts(_ text: String?) throws -> [String]? {
        guard let text else { return nil }
        let codes = text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        for code in codes where code.wholeMatch(of: /[A-Z]{3}/) == nil {
            throw CommandFailure(
                .inputRejected,
                "bad_storefront: \(quoted(code)) is not three capital letters, as USA")
        }
        return Array(Set(codes)).sorted()
    }

    static func productID(_ text: String) throws -> String {
        guard text.wholeMatch(of: /[!-~]{1,255}/) != nil else {
            throw CommandFailure(.inputRejected, "bad_product: \(quoted(text)) is no product id")
        }
        return text
    }
}
