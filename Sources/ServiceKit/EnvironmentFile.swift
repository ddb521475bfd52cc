import Glibc

/// The part of systemd's EnvironmentFile syntax that people use.
///
/// `KEY=value` lines; lines that start with `#` or `;` are comments. A value is bare text, in which a quote is a
/// character like any other, or it begins with quoted parts. Single quotes keep everything. In double quotes and in
/// bare text a backslash escapes, and at the end of a line joins it with the next.
enum EnvironmentFile {
    struct Assignment: Equatable {
        let key: String
        let value: String
        let line: Int
    }

    /// The text, and the mode of a regular file that others may use.
    static func read(
        _ path: String
    ) throws(SettingsError) -> (text: String, modeForOthers: String?) {
        func failure(_ reason: String) -> SettingsError {
            SettingsError(file: path, line: nil, reason: reason)
        }
        guard let file = fopen(path, "re") else {
            throw failure("cannot be opened: \(String(cString: strerror(errno)))")
        }
        defer { fclose(file) }
        var status = stat()
        guard fstat(fileno(file), &status) == 0 else { throw failure("cannot be examined") }
        let mode =
            status.st_mode & S_IFMT == S_IFREG ? FileRights.modeForOthers(status) : nil
        var bytes = [UInt8](repeating: 0, count: Settings.fileBytesMax + 1)
        let count = fread(&bytes, 1, bytes.count, file)
        if ferror(file) != 0 { throw failure("cannot be read; is it a file?") }
        if count > Settings.fileBytesMax { throw failure("is larger than 1 MiB") }
        guard let text = String(validating: bytes.prefix(count), as: UTF8.self) else {
            throw failure("is not UTF-8 text")
        }
        return (text, mode)
    }

    static func parse(_ text: String, file: String) throws(SettingsError) -> [Assignment] {
        var parser = EnvironmentParser(text: text, file: file)
        var assignments: [Assignment] = []
        var faults: [SettingsError] = []
        while !parser.isAtEnd {
            do throws(SettingsError) {
                if let assignment = try parser.next() { assignments.append(assignment) }
            } catch {
                faults.append(error)
                parser.skipLine()
            }
        }
        // All faults are reported at once, so that the operator can mend the file in one go.
        if var first = faults.first {
            first.further = Array(faults.dropFirst())
            throw first
        }
        return assignments
    }
}

private struct EnvironmentParser {
    private let scalars: [Unicode.Scalar]
    private let file: String
    private var position = 0
    private var line = 1

    init(text: String, file: String) {
        // A byte order mark and CRLF line ends come from editors and have no meaning.
        let unified = text.hasPrefix("\u{FEFF}") ? String(text.dropFirst()) : text
        let normal = unified.replacing("\r\n", with: "\n")
        scalars = Array(normal.unicodeScalars)
        self.file = file
    }

    private var current: Unicode.Scalar? { position < scalars.count ? scalars[position] : nil }

    var isAtEnd: Bool { position >= scalars.count }

    mutating func skipLine() {
        while let skipped = advance(), skipped != "\n" {}
    }

    private mutating func advance() -> Unicode.Scalar? {
        guard let scalar = current else { return nil }
        position += 1
        if scalar == "\n" { line += 1 }
        return scalar
    }

    private func failure(_ reason: String, line: Int) -> SettingsError {
        SettingsError(file: file, line: line, reason: reason)
    }

    mutating func next() throws(SettingsError) -> EnvironmentFile.Assignment? {
        while let scalar = current {
            if scalar == "\n" || scalar == " " || scalar == "\t" {
                _ = advance()
            } else if scalar == "#" || scalar == ";" {
                skipLine()
            } else {
                return try assignment()
            }
        }
        return nil
    }

    private mutating func assignment() throws(SettingsError) -> EnvironmentFile.Assignment {
        let start = line
        var key = ""
        while let scalar = current, scalar != "=", scalar != "\n" {
            key.unicodeScalars.append(scalar)
            _ = advance()
        }
        while key.last == " " || key.last == "\t" { key.removeLast() }
        guard current == "=" else {
            throw failure("expected KEY=value; is an equals sign missing?", line: start)
        }
        guard Self.isName(key) else {
            throw failure("the name before \"=\" may hold only A-Z, a-z, 0-9 and _", line: start)
        }
        _ = advance()
        let value = try value(of: key, start: start)
        return EnvironmentFile.Assignment(key: key, value: value, line: start)
    }

    private static func isName(_ text: String) -> Bool {
        guard let first = text.utf8.first, !(0x30...0x39).contains(first) else { return false }
        return text.utf8.allSatisfy {
            (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0)
                || $0 == 0x5F
        }
    }

    private mutating func value(of key: String, start: Int) throws(SettingsError) -> String {
        while current == " " || current == "\t" { _ = advance() }
        var value = String.UnicodeScalarView()
        // Blanks after bare text are dropped, but quoted or escaped ones are kept.
        var kept = 0
        // Within bare text a quote is a character like any other, and behind a quoted part blanks come before the next.
        var isBare = false
        while let scalar = advance(), scalar != "\n" {
            switch scalar {
            case "\0": throw failure("\(key) holds a zero byte", line: start)
            case "'" where !isBare, "\"" where !isBare:
                try quoted(by: scalar, into: &value, key: key, start: start)
                kept = value.count
            case "\\":
                isBare = true
                guard let escaped = advance(), escaped != "\n" else { continue }
                value.append(escaped)
                kept = value.count
            case " ", "\t":
                if isBare { value.append(scalar) }
            default:
                isBare = true
                value.append(scalar)
                kept = value.count
            }
        }
        return String(String.UnicodeScalarView(value.prefix(kept)))
    }

    private mutating func quoted(
        by quote: Unicode.Scalar, into value: inout String.UnicodeScalarView, key: String,
        start: Int
    ) throws(SettingsError) {
        while let scalar = advance() {
            if scalar == quote { return }
            if scalar == "\0" { throw failure("\(key) holds a zero byte", line: start) }
            guard quote == "\"", scalar == "\\", let escaped = current else {
                value.append(scalar)
                continue
            }
            switch escaped {
            case "\"", "\\", "`", "$":
                value.append(escaped)
                _ = advance()
            case "\n": _ = advance()
            default: value.append(scalar)
            }
        }
        throw failure("the quote of \(key) is never closed", line: start)
    }
}
