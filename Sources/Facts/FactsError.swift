/// A stored value that this version of the program cannot read, because somebody else or a newer version wrote it.
package enum FactsError: Error, Sendable, Equatable, CustomStringConvertible {
    case unreadable(String)

    package var description: String {
        switch self {
        case .unreadable(let what): "stored_value_unreadable: \(what)"
        }
    }
}
