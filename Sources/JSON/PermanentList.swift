/// A list for a table that the program keeps until it ends.
///
/// An array has a reference count, which all threads would write for each payload that they compare with the table, so
/// that the cores would contend for its cache line. This list has no reference count, and its memory is never freed.
/// Make it once, in a `static let`.
///
/// Unchecked: the memory never changes after `init`. It is inlinable, because other modules would otherwise read it
/// through slow generic code.
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
