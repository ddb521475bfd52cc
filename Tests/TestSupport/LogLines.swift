package import ServiceKit
import Synchronization

/// The lines of a log that is kept in memory.
package final class LogLines: Sendable {
    private let lines = Mutex<[String]>([])

    package init() {}

    package var all: [String] { lines.withLock { $0 } }

    package func about(_ text: String) -> [String] { all.filter { $0.contains(text) } }

    package func log(_ level: Log.Level = .info) -> Log {
        Log(component: "test", level: level) { line in self.lines.withLock { $0.append(line) } }
    }
}
