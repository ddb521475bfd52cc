/// A command that cannot do its work: what went wrong and what to do, in one line.
package struct CommandFailure: Error, Equatable, CustomStringConvertible {
    package let code: ExitCode
    package let message: String

    package init(_ code: ExitCode, _ message: String) {
        self.code = code
        self.message = message
    }

    package var description: String { message }
}
