internal import JSONReading

/// What an object of the App Store may hold, as far as it is documented: what is beside it is
/// unknown, and worth telling somebody.
struct WireShape: Sendable {
    /// Reading never depends on it: an odd value is read as far as it can be, and reported.
    indirect enum Form: Sendable {
        case text, integer, instant, boolean, texts
        /// An enumeration, kept raw wherever it is read.
        case word([StaticString])
        case code([Int64])
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

    let fields: [Field]
    /// The fields' names, in their order.
    let names: JSONNames
    /// Without it an object of this shape cannot be read.
    let required: StaticString?

    init(required: StaticString? = nil, _ fields: [Field]) {
        self.fields = fields
        self.required = required
        names = JSONNames(fields.map(\.name))
    }
}
