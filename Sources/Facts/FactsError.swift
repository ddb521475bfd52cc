/// A stored value that this version of the program cannot read: somebody else wrote it, or a newer version.
package enum FactsError: Error, Sendable, Equatable, CustomStringConvertible {
    case unreadable(String)

    package var description: String {
        switch self {
        case .unreadable(let what): "stored_value_unreadable: \(what)"
        }
    }
}
