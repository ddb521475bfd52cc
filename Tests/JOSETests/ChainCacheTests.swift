import JOSE
import SandboxStore
import ServiceKit
import Synchronization
import Testing

@Suite struct ChainCacheTests {
    @Test func cache_whenChainIsSeenAgain_holdsItOnce() throws {
        let verifier = try Sample.verifier()

        for index in 0..<5 { #expect(verifier.code(try Sample.jws(filler: index)) == "ok") }

        #expect(verifier.cachedChains == 1)
    }

    @Test func cache_whenVerificationFails_staysEmpty() throws {
        let verifier = try Sample.verifier()
        let jws = try Sample.jws()

        let stranger = try Sample.strangers.get().signer().sign([1])

        #expect(verifier.code(jws.replacingPart(2) { "AAAA" + $0.dropFirst(4) }) == "jws_signature")
        #expect(verifier.code(stranger) == "jws_chain")

        #expect(verifier.cachedChains == 0)
    }

    @Test func cache_whenOnlyTheTimeIsWrong_keepsTheChainThatIsProved() throws {
        let verifier = try Sample.verifier()
        let jws = try Sample.jws()

        #expect(verifier.code(jws, at: signingTime + 9 * day) == "jws_chain")
        #expect(verifier.code(jws) == "ok")
        #expect(verifier.code(jws, at: signingTime + 9 * day) == "jws_chain")

        #expect(verifier.cachedChains == 1)
    }

    @Test func cache_whenHeadersDiffer_staysWithinItsLimit() throws {
        let verifier = try Sample.verifier(cacheLimit: 3)
        let ours = try Sample.authority.get()
        let chain = try ours.chainDER().map { "\"\(Base64.encode($0))\"" }.joined(separator: ",")

        for index in 0..<8 {
            let header = Array("{\"alg\":\"ES256\",\"n\":\(index),\"x5c\":[\(chain)]}".utf8)
            let jws = try signCompactJWS(header: header, payload: [1], key: ours.signingKey())
            #expect(verifier.code(jws) == "ok")
            #expect(verifier.cachedChains == min(index + 1, 3))
        }
    }

    @Test func verify_whenManyThreadsShareIt_agrees() async throws {
        let verifier = try Sample.verifier(cacheLimit: 1)
        let good = try Sample.jws()
        let bad = good.replacingPart(1) { _ in "AAAA" }

        let codes = await withTaskGroup(of: String.self) { group in
            for index in 0..<40 {
                group.addTask { verifier.code(index.isMultiple(of: 2) ? good : bad) }
            }
            return await group.reduce(into: [:]) { $0[$1, default: 0] += 1 }
        }

        #expect(codes == ["ok": 20, "jws_signature": 20])
    }

    /// The chain of `authority` with another signature in the leaf: it names every issuer rightly.
    private func forged(_ number: UInt8, part: Int = 0) throws -> String {
        let ours = try Sample.authority.get()
        var chain = try ours.chainDER()
        chain[part][chain[part].count - 1] ^= number | 1
        chain[part][chain[part].count - 2] ^= number
        return try JWSSigner(key: ours.signingKey(), chainDER: chain).sign([1])
    }

    @Test func cache_whenForgedChainsFlood_staysSmallAndServesTheGood() throws {
        let verifier = try Sample.verifier()
        let good = try Sample.jws()
        #expect(verifier.code(good) == "ok")

        for number in 0..<150 {
            let number = UInt8(number)
            #expect(verifier.code(try forged(number & 0xFE)) == "jws_chain")
            #expect(verifier.code(try forged(number & 0xFE, part: 1)) == "jws_chain")
            #expect(verifier.code(good) == "ok")
        }

        #expect(verifier.cachedChains == 1)
        #expect(verifier.rememberedRefusals <= 256)
        #expect(verifier.code(good) == "ok")
    }

    @Test func cache_whenChainWasRefused_refusesItAlikeAgain() throws {
        let verifier = try Sample.verifier()
        let jws = try forged(4)

        #expect(verifier.code(jws) == "jws_chain")
        #expect(verifier.rememberedRefusals == 1)
        #expect(verifier.code(jws) == "jws_chain")
        #expect(verifier.rememberedRefusals == 1)
    }

    @Test func replaceRoots_whenARootIsRemoved_refusesItsChains() throws {
        let (ours, theirs) = (try Sample.authority.get(), try Sample.strangers.get())
        let verifier = try Sample.verifier()
        let (mine, foreign) = (try Sample.jws(), try theirs.signer().sign([1]))
        #expect(verifier.code(mine) == "ok")
        #expect(verifier.code(foreign) == "jws_chain")

        try verifier.replaceRoots(theirs.trustedRoots())
        #expect(verifier.cachedChains == 0)
        #expect(verifier.code(mine) == "jws_chain")
        #expect(verifier.code(foreign) == "ok")

        try verifier.replaceRoots(TrustedRoots(der: [ours.chainDER()[2], theirs.chainDER()[2]]))
        #expect(verifier.code(mine) == "ok")
        #expect(verifier.code(foreign) == "ok")
    }

    @Test func replaceRoots_whileThreadsVerify_holdsForEachCallThatBeginsAfterIt() async throws {
        let (ours, theirs) = (
            try Sample.authority.get().trustedRoots(), try Sample.strangers.get().trustedRoots()
        )
        let verifier = try Sample.verifier()
        let mine = try Sample.jws()
        let foreign = try Sample.strangers.get().signer().sign([1])
        let end = End()

        try await withThrowingTaskGroup(of: Set<String>.self) { group in
            // On both cores the other root's chain is known and used all the time.
            for _ in 0..<2 {
                group.addTask(executorPreference: ThreadExecutor(name: "verifier")) {
                    var codes: Set<String> = []
                    while !end.hasCome.load(ordering: .relaxed) {
                        codes.insert(verifier.code(mine))
                    }
                    return codes
                }
            }
            for _ in 0..<40 {
                try verifier.replaceRoots(theirs)
                #expect(verifier.code(mine) == "jws_chain")
                #expect(verifier.code(foreign) == "ok")
                try verifier.replaceRoots(ours)
                #expect(verifier.code(mine) == "ok")
                #expect(verifier.code(foreign) == "jws_chain")
            }
            end.hasCome.store(true, ordering: .relaxed)
            for try await codes in group { #expect(codes.isSubset(of: ["ok", "jws_chain"])) }
        }
    }
}

private final class End: Sendable {
    let hasCome = Atomic(false)
}
