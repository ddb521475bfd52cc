extension Array {
    /// What one column of a statement gets of each element. Rows are large, and a statement has many columns: unlike `map`,
    /// this copies no element to read a field of it.
    @inline(__always)
    func column<Value>(_ value: (Element) -> Value) -> [Value] {
        withUnsafeBufferPointer { elements in
            var values: [Value] = []
            values.reserveCapacity(elements.count)
            for index in elements.indices { values.append(value(elements[index])) }
            return values
        }
    }
}
