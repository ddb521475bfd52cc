internal import JSONReading

/// Compares payloads with the documented shapes, and collects what is beside them.
struct UnknownScan {
    /// Kept of one notification: the first ones.
    static let partsMax = 16
    private static let valueLengthMax = 40

    private(set) var parts: [UnknownPart] = []
    private var path: [StaticString] = []

    mutating func add(_ kind: UnknownPart.Kind, _ name: String) {
        let part = UnknownPart(kind, storable(name))
        guard parts.count < Self.partsMax, !parts.contains(part) else { return }
        parts.append(part)
    }

    /// Compares an object; `name` is what its fields' names begin with.
    mutating func compare(_ json: JSONNode, with shape: WireShape, named name: StaticString) {
        path.append(name)
        compare(json, shape)
        path.removeLast()
    }

    private mutating func compare(_ json: JSONNode, _ shape: WireShape) {
        json.forEachMember { name, value in
            guard let field = Self.field(name, in: shape) else {
                add(.field, place(name.text ?? name.raw))
                return
            }
            // An explicit null says as little as an absent field.
            if value.isNull { return }
            path.append(field.name)
            compare(value, field.form)
            path.removeLast()
        }
        if let required = shape.required, json[required]?.text == nil {
            add(.shape, place("\(required):absent"))
        }
    }

    private static func field(_ name: JSONNode, in shape: WireShape) -> WireShape.Field? {
        guard let bytes = name.textBytes else { return nil }
        let index = shape.candidates(bytes).first { name.holds(shape.fields[$0].name) }
        return index.map { shape.fields[$0] }
    }

    private mutating func compare(_ value: JSONNode, _ form: WireShape.Form) {
        switch form {
        case .text: require(value.textBytes != nil, value)
        case .integer: require(value.int64 != nil, value)
        case .instant: require(value.int64RoundedDown != nil, value)
        case .boolean: require(value.boolean != nil, value)
        case .texts: compareElements(of: value) { $0.require($1.textBytes != nil, $1) }
        case .word(let words):
            guard let text = value.textBytes else { return require(false, value) }
            if !words.contains(where: value.holds) {
                addValue(String(decoding: text, as: UTF8.self))
            }
        case .code(let codes):
            guard let code = value.int64 else { return require(false, value) }
            if !codes.contains(code) { addValue("\(code)") }
        case .object(let shape):
            require(value.kind == .object, value)
            compare(value, shape)
        case .list(let shape):
            compareElements(of: value) { scan, element in
                scan.require(element.kind == .object, element)
                scan.compare(element, shape)
            }
        }
    }

    private mutating func compareElements(
        of value: JSONNode, _ body: (inout UnknownScan, JSONNode) -> Void
    ) {
        guard let elements = value.elements else { return require(false, value) }
        for element in elements { body(&self, element) }
    }

    private mutating func require(_ isAsDocumented: Bool, _ value: JSONNode) {
        if isAsDocumented { return }
        add(.shape, "\(place(nil)):\(value.kind)")
    }

    private mutating func addValue(_ value: String) {
        add(.value, "\(place(nil))=\(value.prefix(Self.valueLengthMax))")
    }

    private func place(_ member: String?) -> String {
        (path.map(\.description) + [member].compactMap { $0 }).joined(separator: ".")
    }
}
