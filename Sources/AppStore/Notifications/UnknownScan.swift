internal import JSON

/// Compares payloads with the documented shapes, and collects what is not documented.
struct UnknownScan {
    /// How many parts of one notification are kept: the first ones.
    static let partsMax = 16
    private static let valueLengthMax = 40

    private(set) var parts: [UnknownPart] = []
    private var path: [StaticString] = []

    mutating func add(_ kind: UnknownPart.Kind, _ name: String) {
        let part = UnknownPart(kind, storable(name))
        guard parts.count < Self.partsMax, !parts.contains(part) else { return }
        parts.append(part)
    }

    /// Compares an object. Its fields' names begin with `name`.
    mutating func compare(_ json: JSONNode, with shape: WireShape, named name: StaticString) {
        path.append(name)
        compare(json, shape)
        path.removeLast()
    }

    private mutating func compare(_ json: JSONNode, _ shape: WireShape) {
        json.forEachMember(of: shape.names) { place, name, value in
            guard let place else {
                add(.field, self.place(name.text ?? name.raw))
                return
            }
            // An explicit null says as little as an absent field.
            if !value.isNull { compare(value, shape.fields[place]) }
        }
        for required in shape.required where json[required]?.isNull ?? true {
            add(.shape, place("\(required):absent"))
        }
    }

    private mutating func compare(_ value: JSONNode, _ field: WireShape.Field) {
        switch field.form {
        case .text: require(value.isText, field, value)
        case .integer: require(value.int64 != nil, field, value)
        case .amount:
            guard let amount = value.int64 else { return require(false, field, value) }
            if amount < 0 { add(field, "\(amount)") }
        case .instant: require(value.int64RoundedDown != nil, field, value)
        case .boolean: require(value.boolean != nil, field, value)
        case .texts:
            guard let elements = value.elements else { return require(false, field, value) }
            for element in elements { require(element.isText, field, element) }
        case .word(let words):
            guard value.isText else { return require(false, field, value) }
            if !words.contains(where: value.holds) { add(field, value.text ?? "") }
        case .code(let codes):
            guard let code = value.int64 else { return require(false, field, value) }
            if !codes.contains(code) { add(field, "\(code)") }
        case .object(let shape): compare(value, shape, within: field)
        case .list(let shape):
            guard let elements = value.elements else { return require(false, field, value) }
            for element in elements { compare(element, shape, within: field) }
        }
    }

    private mutating func compare(
        _ value: JSONNode, _ shape: WireShape, within field: WireShape.Field
    ) {
        guard value.kind == .object else { return require(false, field, value) }
        path.append(field.name)
        compare(value, shape)
        path.removeLast()
    }

    private mutating func require(
        _ isAsDocumented: Bool, _ field: WireShape.Field, _ value: JSONNode
    ) {
        if isAsDocumented { return }
        add(.shape, place("\(field.name):\(value.kind)"))
    }

    private mutating func add(_ field: WireShape.Field, _ value: String) {
        add(.value, place("\(field.name)=\(value.prefix(Self.valueLengthMax))"))
    }

    private func place(_ member: String) -> String {
        (path.map(\.description) + [member]).joined(separator: ".")
    }
}
