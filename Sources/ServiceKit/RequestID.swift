/// The id of the HTTP request that a task answers. It is in every line that the task logs, and in a header of the
/// answer.
package enum RequestID {
    @TaskLocal package static var current: String?

    /// The longest id, which is longer than any that a proxy makes.
    private static let lengthMax = 64

    /// Whether a client may give this id: it may hold no character with a meaning of its own in a log line.
    package static func isUsable(_ text: String) -> Bool {
        (1...lengthMax).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"),
                    UInt8(ascii: "."):
                    true
                default: false
                }
            }
    }
}
