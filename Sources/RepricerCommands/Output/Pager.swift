import Glibc

/// A person's own program for reading what is longer than the screen.
enum Pager {
    /// With these options `less` exits by itself if the text fits, and passes colours on.
    private static let usual = "less -FRX"

    /// The pager's command; nil where none is wanted.
    static func command(_ environment: [String: String]) -> String? {
        if environment["TERM"] == "dumb" { return nil }
        let wanted = environment["PAGER"] ?? usual
        return wanted.allSatisfy(\.isWhitespace) || wanted == "cat" ? nil : wanted
    }

    /// Passes the text to the pager and waits for its end. Returns false where the pager cannot be run.
    static func run(_ command: String, _ text: String) -> Bool {
        // The reader's Ctrl-C belongs to the pager while it runs, and a pager that ends early does not end us.
        let before = (signal(SIGINT, SIG_IGN), signal(SIGPIPE, SIG_IGN))
        defer {
            signal(SIGINT, before.0)
            signal(SIGPIPE, before.1)
        }
        guard let pipe = popen("\(command) 2>/dev/null", "w") else { return false }
        // Leaving the pager early is no error.
        let bytes = Array(text.utf8)
        _ = fwrite(bytes, 1, bytes.count, pipe)
        let status = pclose(pipe)
        // This is the shell's code for a program that is not installed.
        return status >> 8 & 0xFF != 127 && status >= 0
    }
}

/// Text as one word of a shell.
enum ShellWord {
    /// Whether a shell takes it unchanged, and it is no option.
    static func isPlain(_ text: String) -> Bool {
        !text.isEmpty && !text.hasPrefix("-")
            && text.utf8.allSatisfy { byte in
                (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte)
                    || (0x61...0x7A).contains(byte) || "-_./:@%+=,".utf8.contains(byte)
            }
    }

    static func quoted(_ text: String) -> String {
        isPlain(text)
            ? text
            : "'"
                + text.split(separator: "'", omittingEmptySubsequences: false)
                .joined(separator: "'\\''") + "'"
    }
}
