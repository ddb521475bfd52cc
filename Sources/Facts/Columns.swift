extension Array {
    /// The values of one column, one for each element. Elements are large and a statement has many columns, so this
    /// reads the fields in place, where `map` would copy each element.
    @inline(__always)
    package func column<Value>(_ value: (Element) -> Value) -> [Value] {
        withUnsafeBufferPointer { elements in
            var values: [Value] = []
            values.reserveCapacity(elements.count)
            for index in elements.indices { values.append(value(elements[index])) }
            return values
        }
    }

    /// The same for a column that stands beside longer ones in an `unnest`. Where no element has a value, the array is
    /// sent empty and `unnest` pads it with NULL, so that the column costs nothing a row. It must not be the first
    /// column, nor the only one.
    @inline(__always)
    package func sparseColumn<Value>(_ value: (Element) -> Value?) -> [Value?] {
        withUnsafeBufferPointer { elements in
            guard let first = elements.indices.first(where: { value(elements[$0]) != nil })
            else { return [] }
            var values = [Value?](repeating: nil, count: first)
            values.reserveCapacity(elements.count)
            for index in first..<elements.count { values.append(value(elements[index])) }
            return values
        }
    }
}
