/// A command that cannot do its work: what went wrong and what to do, in one line.
package struct CommandFailure: Error, Equatable, CustomStringConvertible {
    package let code: ExitCode
    package let message: String

    /// Whether the message begins with the name of its file, and needs no other prefix.
    let isAboutFile: Bool

    init(_ code: ExitCode, _ message: String, isAboutFile: Bool = false) {
        self.code = code
        self.message = message
        self.isAboutFile = isAboutFile
    }

    package var description: String { message }
}
