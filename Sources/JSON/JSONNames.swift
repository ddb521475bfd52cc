/// A hash table of member names. The hash is of the length and the first and last byte, by which most names are alone
/// in their bucket. Its memory is never freed, so make it once, in a `static let`.
package struct JSONNames: Sendable {
    private static let placeCount = 256
    private static let none = UInt16.max

    private let texts: PermanentList<StaticString>
    /// The first name of each bucket, and for each name the next one in its bucket.
    private let heads: PermanentList<UInt16>
    private let nexts: PermanentList<UInt16>

    /// Takes at most 65,535 names.
    package init(_ names: [StaticString]) {
        texts = PermanentList(names)
        var heads = Array(repeating: Self.none, count: Self.placeCount)
        var nexts = Array(repeating: Self.none, count: names.count)
        for (index, name) in names.enumerated() {
            let place = name.withUTF8Buffer { Self.place($0) }
            nexts[index] = heads[place]
            heads[place] = UInt16(truncatingIfNeeded: index)
        }
        self.heads = PermanentList(heads)
        self.nexts = PermanentList(nexts)
    }

    private static func place(_ name: UnsafeBufferPointer<UInt8>) -> Int {
        guard let first = name.first, let last = name.last else { return 0 }
        return (name.count &* 31 &+ Int(first) &* 7 &+ Int(last)) & (placeCount - 1)
    }

    /// The index of the name in the list; nil for one that is not in it.
    func index(of name: UnsafeBufferPointer<UInt8>) -> Int? {
        var candidate = heads[Self.place(name)]
        while candidate != Self.none {
            let index = Int(candidate)
            if texts[index].utf8CodeUnitCount == name.count,
                texts[index].withUTF8Buffer({ $0.elementsEqual(name) })
            {
                return index
            }
            candidate = nexts[index]
        }
        return nil
    }
}

extension JSONNode {
    /// Calls `body` for each member in order, with the index of its name in the list, nil where the list lacks it. It
    /// makes no call where the value is not an object.
    package func forEachMember(
        of names: JSONNames, _ body: (_ place: Int?, _ name: JSONNode, _ value: JSONNode) -> Void
    ) {
        forEachMember { name, value in body(name.place(in: names), name, value) }
    }
}
