/// A list of a table that the program keeps for ever.
///
/// An array counts its users, and that count would be written by all threads for each payload that they
/// compare with the table: cores would take it from each other all the time. This list counts nothing, and its
/// memory is never freed. Make it once, in a `static let`.
///
/// Unchecked: the memory never changes after `init`. Inlinable, since other modules would else read it through
/// the slow road of generic code.
package struct PermanentList<Element: Sendable>: RandomAccessCollection, ExpressibleByArrayLiteral,
    @unchecked Sendable
{
    @usableFromInline let memory: UnsafePointer<Element>
    package let endIndex: Int

    @inlinable package var startIndex: Int { 0 }

    package init(_ elements: [Element]) {
        let memory = UnsafeMutablePointer<Element>.allocate(capacity: elements.count)
        memory.initialize(from: elements, count: elements.count)
        self.memory = UnsafePointer(memory)
        endIndex = elements.count
    }

    package init(arrayLiteral elements: Element...) {
        self.init(elements)
    }

    @inlinable package subscript(position: Int) -> Element {
        precondition(position >= 0 && position < endIndex, "beyond the list")
        return memory[position]
    }
}
