import JOSE
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

        #expect(verifier.code(jws.replacingPart(2) { "AAAA" + $0.dropFirst(4) }) == "jws_signature")
        #expect(verifier.code(jws, at: signingTime + 9 * day) == "jws_chain")

        #expect(verifier.cachedChains == 0)
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
}
