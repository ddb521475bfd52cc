import Glibc
import Synchronization

/// Writes one line per event: as text `time=… level=info component=… message="…" key=value`, as JSON one object with
/// the same keys.
///
/// A line holds our own data only: names, ids, codes, counts. Never log secrets or signed payloads.
package struct Log: Sendable {
    package enum Level: Int, Sendable, Comparable, CaseIterable {
        /// Each step of each change, for following a single one.
        case debug
        case info, notice, warning, error

        package static func < (left: Level, right: Level) -> Bool {
            left.rawValue < right.rawValue
        }
    }

    package enum Format: String, Sendable, CaseIterable {
        case text, json
    }

    /// Receives each finished line, without its line end.
    package typealias Sink = @Sendable (String) -> Void
    package typealias Fields = KeyValuePairs<String, String>

    /// The longest message or value, in Unicode scalars. Longer ones are cut, so that no event can fill a disk.
    package static let valueCharactersMax = 4096

    private let component: String
    private let level: Level
    private let format: Format
    private let clock: any WallClock
    private let sink: Sink

    /// Lines below `level` are dropped before they are formatted.
    package init(
        component: String, level: Level = .info, format: Format = .text,
        clock: any WallClock = SystemClock(), sink: @escaping Sink = Log.standardError
    ) {
        self.component = component
        self.level = level
        self.format = format
        self.clock = clock
        self.sink = sink
    }

    /// The same log under another component's name.
    package func with(component: String) -> Log {
        Log(component: component, level: level, format: format, clock: clock, sink: sink)
    }

    /// Whether lines of `level` are written. Ask before collecting the fields of an expensive line.
    package func writes(_ level: Level) -> Bool { level >= self.level }

    package func debug(_ message: String, _ fields: @autoclosure () -> Fields = [:]) {
        if writes(.debug) { write(.debug, message, fields()) }
    }

    package func info(_ message: String, _ fields: Fields = [:]) {
        write(.info, message, fields)
    }

    package func notice(_ message: String, _ fields: Fields = [:]) {
        write(.notice, message, fields)
    }

    package func warning(_ message: String, _ fields: Fields = [:]) {
        write(.warning, message, fields)
    }

    package func error(_ message: String, _ fields: Fields = [:]) {
        write(.error, message, fields)
    }

    package func write(_ level: Level, _ message: String, _ fields: Fields) {
        guard writes(level) else { return }
        let time = RFC3339.format(clock.nowMilliseconds())
        switch format {
        case .text:
            var line = "time=\(time) level=\(level)"
            line += " component=\(Self.quoted(component)) message=\(Self.quoted(message))"
            for (key, value) in fields { line += " \(key)=\(Self.quoted(value))" }
            if let request = RequestID.current { line += " request=\(Self.quoted(request))" }
            sink(line)
        case .json:
            var line = "{\"time\":\"\(time)\",\"level\":\"\(level)\""
            line += ",\"component\":\(Self.json(component)),\"message\":\(Self.json(message))"
            for (key, value) in fields { line += ",\(Self.json(key)):\(Self.json(value))" }
            if let request = RequestID.current { line += ",\"request\":\(Self.json(request))" }
            sink(line + "}")
        }
    }

    /// Quotes characters that would break a line or a field apart, so that no input can forge a line.
    private static func quoted(_ value: String) -> String {
        let cut = value.unicodeScalars.prefix(valueCharactersMax)
        let isPlain =
            !cut.isEmpty
            && cut.allSatisfy {
                $0.value > 0x20 && $0 != "\"" && $0 != "=" && $0 != "\\" && !isControl($0)
            }
        if isPlain { return String(String.UnicodeScalarView(cut)) }
        return escaped(cut) { "\\u{\(String($0.value, radix: 16))}" }
    }

    private static func json(_ value: String) -> String {
        escaped(value.unicodeScalars.prefix(valueCharactersMax)) { scalar in
            let digits = String(scalar.value, radix: 16)
            return "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
        }
    }

    private static func escaped(
        _ scalars: String.UnicodeScalarView.SubSequence, control: (Unicode.Scalar) -> String
    ) -> String {
        var text = "\""
        for scalar in scalars {
            switch scalar {
            case "\"": text += "\\\""
            case "\\": text += "\\\\"
            case "\n": text += "\\n"
            case "\r": text += "\\r"
            case "\t": text += "\\t"
            case let other where isControl(other): text += control(other)
            case let other: text.unicodeScalars.append(other)
            }
        }
        return text + "\""
    }

    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value)
            || scalar.value == 0x2028 || scalar.value == 0x2029
    }

    private static let standardErrorLock = Mutex(())

    /// Writes the line to standard error; whole lines, never interleaved.
    @Sendable
    package static func standardError(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        standardErrorLock.withLock { _ in
            bytes.withUnsafeBytes { buffer in
                var rest = buffer[...]
                while !rest.isEmpty {
                    let part = UnsafeRawBufferPointer(rebasing: rest)
                    let count = Glibc.write(STDERR_FILENO, part.baseAddress, part.count)
                    if count < 0 && errno == EINTR { continue }
                    // Standard error is gone, so there is nowhere left to say so.
                    guard count > 0 else { return }
                    rest = rest.dropFirst(count)
                }
            }
        }
    }
}
