import HTTP
import ServiceKit
import Synchronization
import TestSupport
import Testing

@testable import Notifications

@Suite struct SecretWatchTests {
    private struct Unreadable: Error, CustomStringConvertible {
        let description = "the file is being written"
    }

    /// The file, as the watch finds it at each look; nil is unreadable.
    private final class File: Sendable {
        let text = Mutex<String?>("first\n")

        func read() throws -> String {
            guard let text = text.withLock({ $0 }) else { throw Unreadable() }
            return text
        }
    }

    @Test func look_theFileChanges_theNewSecretCountsAndTheOldNoLonger() throws {
        let (file, secret, watch, log) = try Self.make()
        let before = watch.reload()

        file.text.withLock { $0 = " second \n" }
        let changed = watch.reload()

        #expect(before == .unchanged)
        #expect(changed == .replaced)
        #expect(watch.reload() == .unchanged)
        #expect(secret.isEqual(to: Array("second".utf8)))
        #expect(!secret.isEqual(to: Array("first".utf8)))
        #expect(log.about("second") == [])
    }

    @Test func look_theFileIsUnusable_theSecretFromBeforeStaysAndOneLineSaysSo() throws {
        let metrics = Metrics()
        let (file, secret, watch, log) = try Self.make(metrics)

        file.text.withLock { $0 = nil }
        let outcomes = [watch.reload(), watch.reload()]
        let stale = metrics.render()
        file.text.withLock { $0 = "\n" }
        let empty = watch.reload()
        file.text.withLock { $0 = "first" }
        let mended = watch.reload()

        #expect(
            outcomes == [
                .refused("the file is being written"), .refused("the file is being written"),
            ])
        #expect(stale.contains("repricer_secret_stale{secret=\"token\"} 1"))
        #expect(empty == .unchanged)
        #expect(mended == .unchanged)
        #expect(secret.isEqual(to: Array("first".utf8)))
        #expect(log.about("unusable").count == 1)
        #expect(metrics.render().contains("repricer_secret_stale{secret=\"token\"} 0"))
    }

    private static func make(
        _ metrics: Metrics = Metrics()
    ) throws -> (File, SharedSecret, SecretWatch, LogLines) {
        let file = File()
        let lines = LogLines()
        let secret = try #require(SharedSecret(fileContent: try file.read()))
        let watch = SecretWatch(
            label: "token", secret: secret, reloads: { AsyncStream { $0.finish() } },
            log: lines.log(),
            metrics: metrics, read: { try file.read() })
        return (file, secret, watch, lines)
    }
}
