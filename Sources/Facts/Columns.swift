extension Array {
    /// What one column of a statement gets of each element. Rows are large, and a statement has many columns: unlike `map`,
    /// this copies no element to read a field of it.
    @inline(__always)
    package func column<Value>(_ value: (Element) -> Value) -> [Value] {
        withUnsafeBufferPointer { elements in
            var values: [Value] = []
            values.reserveCapacity(elements.count)
            for index in elements.indices { values.append(value(elements[index])) }
            return values
        }
    }

    /// The same of a column that stands beside longer ones in an `unnest`, which pads with NULL: one without any value is
    /// sent empty, and costs nothing a row. Never for the first column, nor for an array that stands alone.
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
