import AppStore
import Foundation
import JOSE
import SandboxStore
import ServiceKit
import TestSupport
import Testing

@Suite struct RootsWatchTests {
    private let folder =
        FileManager.default.temporaryDirectory.path + "/roots-watch-\(UUID().uuidString)"

    private func write(_ text: String, _ name: String) throws {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try text.write(toFile: "\(folder)/\(name)", atomically: true, encoding: .utf8)
    }

    private func pem(_ authority: CertificateAuthority) throws -> String {
        try authority.rootPEM()
    }

    private func isAccepted(_ jws: String, _ verifier: JWSVerifier) -> Bool {
        (try? verifier.open(jws)) != nil
    }

    private func withWatch(
        _ body: (RootsWatch, JWSVerifier, Metrics, LogLines) throws -> Void
    ) throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try write(pem(Fixture.authority.get()), "a.pem")
        let verifier = try JWSVerifier(roots: TrustedRoots(certificatesIn: folder))
        let metrics = Metrics()
        let lines = LogLines()
        let watch = RootsWatch(
            path: folder, verifier: verifier, reloads: { AsyncStream { $0.finish() } },
            log: lines.log(), metrics: metrics)
        try body(watch, verifier, metrics, lines)
    }

    @Test func look_whenARootIsAddedAndAnotherRemoved_followsAndDropsItsChains() throws {
        let (ours, theirs) = (try Fixture.authority.get(), try Fixture.strangers.get())
        let (mine, foreign) = (try ours.signer().sign([1]), try theirs.signer().sign([1]))
        try withWatch { watch, verifier, _, lines in
            #expect(watch.reload() == .unchanged)
            #expect(isAccepted(mine, verifier))
            #expect(!isAccepted(foreign, verifier))

            try write(pem(theirs), "b.pem")
            #expect(watch.reload() == .replaced(2))
            #expect(isAccepted(mine, verifier))
            #expect(isAccepted(foreign, verifier))

            try FileManager.default.removeItem(atPath: "\(folder)/a.pem")
            #expect(watch.reload() == .replaced(1))
            #expect(verifier.cachedChains == 0)
            #expect(!isAccepted(mine, verifier))
            #expect(isAccepted(foreign, verifier))
            #expect(watch.reload() == .unchanged)
            #expect(lines.all.count == 2)
        }
    }

    @Test func look_whenTheFilesAreUnusable_keepsTheOldRootsAndSaysSoOnce() throws {
        let mine = try Fixture.authority.get().signer().sign([1])
        try withWatch { watch, verifier, metrics, lines in
            try write("-----BEGIN CERTIFICATE-----\nhalf", "a.pem")
            for _ in 0..<3 {
                guard case .refused(let error) = watch.reload() else {
                    Issue.record("half a file was taken")
                    return
                }
                #expect(error.code == .certificate)
            }
            #expect(isAccepted(mine, verifier))
            #expect(metrics.render().contains("repricer_roots_stale 1"))
            #expect(lines.all.count == 1)
            #expect(lines.all.first?.contains("level=error") == true)

            try FileManager.default.removeItem(atPath: folder)
            #expect(watch.reload() == .refused(JOSEError(.file, "\(folder) does not exist")))
            #expect(isAccepted(mine, verifier))

            try write(pem(Fixture.authority.get()), "a.pem")
            #expect(watch.reload() == .unchanged)
            #expect(metrics.render().contains("repricer_roots_stale 0"))
        }
    }

    @Test func run_whenToldToReload_looksAtOnce() async throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let theirs = try Fixture.strangers.get()
        try write(pem(Fixture.authority.get()), "a.pem")
        let verifier = try JWSVerifier(roots: TrustedRoots(certificatesIn: folder))
        let (replaced, said) = AsyncStream.makeStream(of: Void.self)
        let (reloads, reload) = AsyncStream.makeStream(of: Int32.self)
        let watch = RootsWatch(
            path: folder, verifier: verifier, interval: .seconds(3600), reloads: { reloads },
            log: Log(component: "test") { _ in said.yield() }, metrics: Metrics())
        let foreign = try theirs.signer().sign([1])

        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await watch.run() }
            try write(pem(theirs), "a.pem")
            reload.yield(1)
            for await _ in replaced { break }
            group.cancelAll()
            // A cancelled service ends by this error.
            try? await group.waitForAll()
        }

        #expect(isAccepted(foreign, verifier))
    }
}
