import Glibc
import Synchronization

/// Writes one logfmt line an event: `time=… level=info component=… message="…" key=value`.
package struct Log: Sendable {
    package enum Level: Int, Sendable, Comparable {
        case info, notice, warning, error

        package static func < (left: Level, right: Level) -> Bool {
            left.rawValue < right.rawValue
        }
    }

    /// Receives each finished line, without its line end.
    package typealias Sink = @Sendable (String) -> Void

    /// A message longer than this is cut: one event must not fill a disk.
    package static let valueCharactersMax = 4096

    private let component: String
    private let level: Level
    private let clock: any WallClock
    private let sink: Sink

    /// Lines below `level` are dropped before they are formatted.
    package init(
        component: String, level: Level = .info, clock: any WallClock = SystemClock(),
        sink: @escaping Sink = Log.standardError
    ) {
        self.component = component
        self.level = level
        self.clock = clock
        self.sink = sink
    }

    /// The same log under another component's name.
    package func with(component: String) -> Log {
        Log(component: component, level: level, clock: clock, sink: sink)
    }

    package func info(_ message: String, _ fields: KeyValuePairs<String, String> = [:]) {
        write(.info, message, fields)
    }

    package func notice(_ message: String, _ fields: KeyValuePairs<String, String> = [:]) {
        write(.notice, message, fields)
    }

    package func warning(_ message: String, _ fields: KeyValuePairs<String, String> = [:]) {
        write(.warning, message, fields)
    }

    package func error(_ message: String, _ fields: KeyValuePairs<String, String> = [:]) {
        write(.error, message, fields)
    }

    private func write(
        _ level: Level, _ message: String, _ fields: KeyValuePairs<String, String>
    ) {
        guard level >= self.level else { return }
        var line = "time=\(RFC3339.format(clock.nowMilliseconds())) level=\(level)"
        line += " component=\(Self.quoted(component)) message=\(Self.quoted(message))"
        for (key, value) in fields { line += " \(key)=\(Self.quoted(value))" }
        sink(line)
    }

    /// Quotes what would break a line or a field apart; nothing that comes in can forge a line.
    private static func quoted(_ value: String) -> String {
        let cut = value.unicodeScalars.prefix(valueCharactersMax)
        let isPlain =
            !cut.isEmpty
            && cut.allSatisfy {
                $0.value > 0x20 && $0 != "\"" && $0 != "=" && $0 != "\\" && !isControl($0)
            }
        if isPlain { return String(String.UnicodeScalarView(cut)) }
        var text = "\""
        for scalar in cut {
            switch scalar {
            case "\"": text += "\\\""
            case "\\": text += "\\\\"
            case "\n": text += "\\n"
            case "\r": text += "\\r"
            case "\t": text += "\\t"
            case let control where isControl(control):
                text += "\\u{\(String(control.value, radix: 16))}"
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
                    // Standard error is gone: there is nowhere left to say so.
                    guard count > 0 else { return }
                    rest = rest.dropFirst(count)
                }
            }
        }
    }
}
