/// What is wrong with one row of a file that a person imports, and what to do about it.
package struct FileFault<C: RawRepresentable<String> & Hashable & Sendable>: Error, Hashable {
    package typealias Code = C

    package var line: Int
    package var code: Code
    package var message: String
    package var remedy: String

    init(_ line: Int, _ code: Code, _ message: String, remedy: String) {
        self.line = line
        self.code = code
        self.message = message
        self.remedy = remedy
    }

    /// The text `FILE:LINE: CODE: what is wrong; what to do`.
    package func text(file: String) -> String {
        "\(file):\(line): \(code.rawValue): \(message); \(remedy)"
    }
}
