package import ServiceKit

extension Log {
    /// Drops every line.
    package static let silent = Log(component: "silent", level: .error, sink: { _ in })
}
