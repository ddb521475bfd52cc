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
    /// Without it an object of this shape cannot be read.
    let required: StaticString?
    /// The fields by length and first byte of the name: most names are alone in their place.
    private let places: [[Int]]

    init(required: StaticString? = nil, _ fields: [Field]) {
        self.fields = fields
        self.required = required
        var places = [[Int]](repeating: [], count: Self.placeCount)
        for (index, field) in fields.enumerated() {
            places[field.name.withUTF8Buffer { Self.place($0) }].append(index)
        }
        self.places = places
    }

    private static let placeCount = 256

    private static func place(_ name: some Collection<UInt8>) -> Int {
        (name.count &* 31 &+ Int(name.first ?? 0)) % placeCount
    }

    /// The candidates for a name; compare it.
    func candidates(_ name: some Collection<UInt8>) -> [Int] { places[Self.place(name)] }
}
