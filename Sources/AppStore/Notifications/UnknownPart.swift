/// Something in a notification that this version of the product does not know.
package struct UnknownPart: Hashable, Sendable, CustomStringConvertible {
    package enum Kind: String, Hashable, Sendable, CaseIterable {
        /// A `notificationType` without a row in the table.
        case type
        /// A `subtype` that its type does not have in the table.
        case subtype
        /// A member that is not documented.
        case field
        /// An enumeration's value that is not documented.
        case value
        /// A value of another JSON type than documented, or out of range.
        case shape
        /// The notification lacks the body that its type has, or nothing of it can be read.
        case body
    }

    /// Longer names are cut, because they come from outside.
    package static let nameLengthMax = 120

    package let kind: Kind
    /// Where it is, as in `renewal.advancedCommerceInfo.items.newField`. A value is named with its content, as in
    /// `transaction.offerType=5`, and a shape with its type, as in `transaction.price:text`.
    package let name: String

    package init(_ kind: Kind, _ name: String) {
        self.kind = kind
        let line = name.unicodeScalars.prefix(Self.nameLengthMax).map { scalar in
            scalar.properties.generalCategory == .control ? "\u{FFFD}" : scalar
        }
        self.name = String(String.UnicodeScalarView(line))
    }

    /// `kind:name`, on one line.
    package var description: String { "\(kind.rawValue):\(name)" }
}
