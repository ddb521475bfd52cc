internal import JSON

/// What an object of the App Store may hold, as far as it is documented. Anything else is unknown and reported.
///
/// Shapes are never freed, and use lists without reference counts, because every thread compares every payload with the
/// same few shapes.
struct WireShape: Sendable {
    /// Reading never depends on the form: an odd value is read as far as possible, and reported.
    enum Form: Sendable {
        case text, integer, instant, boolean, texts
        /// An integer that is not negative.
        case amount
        /// An enumeration, kept raw wherever it is read.
        case word(PermanentList<StaticString>)
        case code(PermanentList<Int64>)
        case object(WireShape)
        case list(WireShape)
    }

    struct Field: Sendable {
        let name: StaticString
        let form: Form

        init(_ name: StaticString, _ form: Form) {
            self.name = name
            self.form = form
        }
    }

    let fields: PermanentList<Field>
    /// The fields' names, in their order.
    let names: JSONNames
    /// The fields without which an object of this shape cannot be read.
    let required: PermanentList<StaticString>

    init(required: [StaticString] = [], _ fields: [Field]) {
        self.fields = PermanentList(fields)
        self.required = PermanentList(required)
        names = JSONNames(fields.map(\.name))
    }
}
