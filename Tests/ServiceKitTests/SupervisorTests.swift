import Foundation
import Glibc
import ServiceKit
import TestSupport
import Testing

/// What systemd hears, on a real socket.
struct SupervisorTests {
    /// A socket of systemd's kind, at a path or, with `@`, by name.
    private final class Listener {
        let name: String
        private let descriptor: Int32

        init(isAbstract: Bool) throws {
            let id = "repricer-\(UUID().uuidString.prefix(8))"
            name = isAbstract ? "@\(id)" : "/tmp/\(id)"
            descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            var bytes = Array(name.utf8)
            if isAbstract { bytes[0] = 0 }
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
            let length = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)
            let bound = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(descriptor, $0, length)
                }
            }
            try #require(bound == 0)
        }

        deinit {
            close(descriptor)
            if name.hasPrefix("/") { unlink(name) }
        }

        /// The next message; waits for it, without a thread of the pool.
        func next() async throws -> String {
            var bytes = [UInt8](repeating: 0, count: 100)
            var count = 0
            try await eventually {
                count = recv(descriptor, &bytes, bytes.count, Int32(MSG_DONTWAIT))
                return count > 0
            }
            return String(decoding: bytes.prefix(count), as: UTF8.self)
        }
    }

    @Test(arguments: [false, true])
    func service_thatRuns_saysReadyThenThatItLives_andThatItEnds(isAbstract: Bool) async throws {
        let listener = try Listener(isAbstract: isAbstract)
        let supervised = try #require(
            Supervised(environment: ["NOTIFY_SOCKET": listener.name, "WATCHDOG_USEC": "2000"]))

        let running = Task { try await supervised.run() }
        let heard = [
            try await listener.next(), try await listener.next(), try await listener.next(),
        ]
        running.cancel()
        _ = await running.result
        var last = try await listener.next()
        while last == "WATCHDOG=1" { last = try await listener.next() }

        #expect(heard == ["READY=1", "WATCHDOG=1", "WATCHDOG=1"])
        #expect(last == "STOPPING=1")
    }

    @Test func service_thatStopsSlowly_asksForTheTime() async throws {
        let listener = try Listener(isAbstract: true)
        let supervised = try #require(Supervised(environment: ["NOTIFY_SOCKET": listener.name]))

        supervised.extend(by: .seconds(620))

        #expect(try await listener.next() == "EXTEND_TIMEOUT_USEC=620000000")
    }

    @Test(arguments: ["", "relative", "/" + String(repeating: "a", count: 200)])
    func socket_thatCannotBe_isNone(path: String) {
        #expect(SupervisorSocket(path: path) == nil)
        #expect(Supervised(environment: ["NOTIFY_SOCKET": path]) == nil)
    }

    @Test func service_withoutASupervisor_tellsNobody() {
        #expect(Supervised(environment: [:]) == nil)
        #expect(SupervisorSocket(path: "/nowhere/at/all")?.tell("READY=1") == false)
    }
}
