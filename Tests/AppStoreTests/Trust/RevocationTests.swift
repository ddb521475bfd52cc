import AppStore
import Foundation
import HTTP
import JOSE
import ServiceKit
import TestSupport
import Testing

@Suite(.ownThread) struct RevocationTests {
    private static let responder = Result {
        try OpenSSLResponder(url: "http://ocsp.example/", hasDelegates: true)
    }

    private func question(
        _ verifier: JWSVerifier, _ responder: OpenSSLResponder, about index: Int = 0
    ) throws -> RevocationQuestion {
        _ = try verifier.open(responder.authority.signer().sign([1]))
        let questions = verifier.revocationQuestions
        try #require(questions.count == 2)
        return questions[index]
    }

    private func verdict(
        _ make: (OpenSSLResponder, [UInt8]) throws -> [UInt8], about index: Int = 0,
        after: Int64 = 0
    ) throws -> String {
        let responder = try Self.responder.get()
        let verifier = try JWSVerifier(roots: responder.authority.trustedRoots())
        let question = try question(verifier, responder, about: index)
        let answer = try make(responder, question.request())
        // openssl answers by the real time.
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        do {
            let verdict = try question.verdict(answer: answer, now: now + after)
            return verdict.state.rawValue
        } catch {
            return error.code.rawValue
        }
    }

    @Test func verdict_whenIssuerOrDelegateSigns_isBelieved() throws {
        #expect(try verdict { try $0.answer($1) } == "good")
        #expect(try verdict { try $0.answer($1, isRevoked: true) } == "revoked")
        #expect(try verdict { try $0.answer($1, isKnown: false) } == "unknown")
        #expect(try verdict { try $0.answer($1, by: .delegate) } == "good")
        #expect(try verdict({ try $0.answer($1, about: "intermediate") }, about: 1) == "good")
        #expect(
            try verdict(
                { try $0.answer($1, about: "intermediate", isRevoked: true) }, about: 1)
                == "revoked")
    }

    @Test func verdict_whenAnotherSigns_isNotBelieved() throws {
        #expect(try verdict { try $0.answer($1, by: .stranger) } == "ocsp_answer")
        #expect(try verdict { try $0.answer($1, by: .wrongDelegate) } == "ocsp_answer")
    }

    @Test func verdict_whenOutOfDate_isNotBelieved() throws {
        #expect(try verdict({ try $0.answer($1) }, after: day / 2) == "good")
        #expect(try verdict({ try $0.answer($1) }, after: day + 10 * 60_000) == "ocsp_answer")
        #expect(try verdict({ try $0.answer($1) }, after: -10 * 60_000) == "ocsp_answer")
    }

    @Test func verdict_whenAnswerIsDamagedOrOfAnother_isNotBelieved() throws {
        #expect(try verdict { _, _ in [] } == "ocsp_answer")
        #expect(try verdict { _, _ in Array("garbage".utf8) } == "ocsp_answer")
        #expect(try verdict { try Array($0.answer($1).dropLast()) } == "ocsp_answer")
        #expect(
            try verdict { responder, request in
                var answer = try responder.answer(request)
                answer[answer.count / 2] ^= 1
                return answer
            } == "ocsp_answer")
        // An answer about the intermediate says nothing about the leaf.
        #expect(
            try verdict { responder, _ in
                let verifier = try JWSVerifier(roots: responder.authority.trustedRoots())
                let other = try question(verifier, responder, about: 1)
                return try responder.answer(other.request(), about: "intermediate")
            } == "ocsp_answer")
        // `tryLater`: an OCSPResponse of a status and nothing else.
        #expect(try verdict { _, _ in [0x30, 0x03, 0x0A, 0x01, 0x03] } == "ocsp_answer")
    }

    @Test func questions_whenCertificatesNameNoResponder_areNone() throws {
        let verifier = try Fixture.verifier()
        _ = try verifier.open(Fixture.sign(["x": 1]))

        #expect(verifier.cachedChains == 1)
        #expect(verifier.revocationQuestions.isEmpty)
    }

    @Test func questions_whenChainIsForged_areNone() throws {
        let responder = try Self.responder.get()
        let verifier = try Fixture.verifier()

        #expect(throws: JOSEError.self) {
            _ = try verifier.open(responder.authority.signer().sign([1]))
        }

        #expect(verifier.revocationQuestions.isEmpty)
    }

    @Test func setRevoked_whenTakenBack_acceptsAgain() throws {
        let responder = try Self.responder.get()
        let verifier = try JWSVerifier(roots: responder.authority.trustedRoots())
        let jws = try responder.authority.signer().sign([1])
        for index in 0..<2 {
            let question = try question(verifier, responder, about: index)

            verifier.setRevoked(true, question)
            for _ in 0..<2 {
                #expect(throws: JOSEError(.revoked, "its issuer has revoked a certificate")) {
                    try verifier.open(jws)
                }
            }
            // Other roots beside ours don't bring it back.
            let both = try TrustedRoots(
                der: [
                    responder.authority.chainDER()[2], Fixture.authority.get().chainDER()[2],
                ])
            #expect(try verifier.replaceRoots(both) == (index == 0))
            #expect(throws: JOSEError.self) { try verifier.open(jws) }
            verifier.setRevoked(false, question)
            #expect(try verifier.open(jws).bytes == [1])
        }
    }

    @Test func setRevoked_whileRootsAreReplaced_isNotLost() async throws {
        let responder = try Self.responder.get()
        let ours = try responder.authority.trustedRoots()
        let both = try TrustedRoots(
            der: [responder.authority.chainDER()[2], Fixture.authority.get().chainDER()[2]])
        let verifier = try JWSVerifier(roots: ours)
        let jws = try responder.authority.signer().sign([1])
        let leaf = try question(verifier, responder)

        let codes = try await withThrowingTaskGroup(of: Set<String>.self) { group in
            group.addTask(executorPreference: ThreadExecutor(name: "roots")) {
                for round in 0..<4000 {
                    try verifier.replaceRoots(round.isMultiple(of: 2) ? both : ours)
                }
                return []
            }
            group.addTask(executorPreference: ThreadExecutor(name: "revocations")) {
                var codes: Set<String> = []
                for _ in 0..<4000 {
                    verifier.setRevoked(true, leaf)
                    codes.insert(code(verifier, jws))
                    verifier.setRevoked(false, leaf)
                }
                return codes
            }
            return try await group.reduce(into: Set<String>()) { $0.formUnion($1) }
        }
        #expect(codes == ["certificate_revoked"])
        #expect(code(verifier, jws) == "ok")
    }
}

@Suite(.serialized, .ownThread) struct RevocationWatchTests {
    private let clock = ManualClock(Int64(Date().timeIntervalSince1970 * 1000))
    private let metrics = Metrics()

    private func watch(_ verifier: JWSVerifier) -> RevocationWatch {
        RevocationWatch(
            verifier: verifier, call: ResponderClient.call, clock: clock, log: .silent,
            metrics: metrics)
    }

    private func count(_ outcome: String) -> Int {
        let line = "repricer_ocsp_checks_total{outcome=\"\(outcome)\"} "
        let found = metrics.render().split(separator: "\n").first { $0.hasPrefix(line) }
        return found.flatMap { Int($0.dropFirst(line.count)) } ?? 0
    }

    @Test func look_whenGood_asksOnceUntilNextUpdate() async throws {
        try await ResponderServer.run { server, url in
            let responder = try OpenSSLResponder(url: url)
            let verifier = try JWSVerifier(roots: responder.authority.trustedRoots())
            let watch = watch(verifier)
            await watch.check()
            #expect(server.requests.withLock { $0.isEmpty })
            let jws = try responder.authority.signer().sign([1])
            #expect(code(verifier, jws) == "ok")
            let leaf = try #require(verifier.revocationQuestions.first)
            server.say(try responder.answer(leaf.request()))

            await watch.check()
            await watch.check()

            // One question each; the answer about the leaf proves nothing of the intermediate.
            #expect(server.requests.withLock { $0.count } == 2)
            #expect(server.requests.withLock { $0.contains((try? leaf.request()) ?? []) })
            #expect(count("good") == 1)
            #expect(count("unanswered") == 1)
            clock.advance(by: .seconds(61))
            await watch.check()
            #expect(count("good") == 1)
            #expect(count("unanswered") == 2)
            #expect(code(verifier, jws) == "ok")
        }
    }

    @Test func look_whenRevoked_refusesUntilTheIssuerTakesItBack() async throws {
        try await ResponderServer.run { server, url in
            let responder = try OpenSSLResponder(url: url)
            let verifier = try JWSVerifier(roots: responder.authority.trustedRoots())
            let watch = watch(verifier)
            let jws = try responder.authority.signer().sign([1])
            #expect(code(verifier, jws) == "ok")
            let leaf = try #require(verifier.revocationQuestions.first)
            server.say(try responder.answer(leaf.request(), isRevoked: true))

            await watch.check()

            #expect(code(verifier, jws) == "certificate_revoked")
            #expect(metrics.render().contains("repricer_certificates_revoked 1"))
            // The responder goes away: revoked stays revoked.
            server.answer.withLock { $0 = .text(500, "away\n") }
            clock.advance(by: .milliseconds(day + 60_000))
            await watch.check()
            #expect(code(verifier, jws) == "certificate_revoked")
            // A hold that is lifted. openssl answers by the real time, which is within the tolerated skew.
            server.say(try responder.answer(leaf.request()))
            clock.advance(by: .seconds(61))
            await watch.check()
            #expect(code(verifier, jws) == "ok")
            #expect(metrics.render().contains("repricer_certificates_revoked 0"))
        }
    }

    @Test(arguments: [
        HTTPResponse.text(404, "gone\n"), .text(200, "garbage"), .text(302, "elsewhere"),
        .text(200, String(repeating: "x", count: 70_000)),
    ])
    func look_whenAnswerIsUseless_acceptsAndSaysSo(_ response: HTTPResponse) async throws {
        try await ResponderServer.run { server, url in
            let responder = try OpenSSLResponder(url: url)
            let verifier = try JWSVerifier(roots: responder.authority.trustedRoots())
            let jws = try responder.authority.signer().sign([1])
            #expect(code(verifier, jws) == "ok")
            server.answer.withLock { $0 = response }

            await watch(verifier).check()

            #expect(server.requests.withLock { $0.count } == 2)
            #expect(count("unanswered") == 2)
            #expect(code(verifier, jws) == "ok")
        }
    }

    @Test func look_whenResponderIsAway_asksLaterAndLater() async throws {
        let responder = try OpenSSLResponder(url: "http://127.0.0.1:1/ocsp")
        let verifier = try JWSVerifier(roots: responder.authority.trustedRoots())
        let jws = try responder.authority.signer().sign([1])
        #expect(code(verifier, jws) == "ok")
        let watch = watch(verifier)

        await watch.check()
        await watch.check()
        #expect(count("unanswered") == 2)
        clock.advance(by: .seconds(61))
        await watch.check()
        #expect(count("unanswered") == 4)
        clock.advance(by: .seconds(61))
        await watch.check()
        #expect(count("unanswered") == 4)

        #expect(code(verifier, jws) == "ok")
    }

    @Test(arguments: [
        "https://127.0.0.1/", "ftp://x/", "http://", "http://user@127.0.0.1/", "http://a b/",
        "http://127.0.0.1:0/", "http://127.0.0.1:99999/x",
    ])
    func call_whenURLIsUnusable_fails(url: String) async {
        await #expect(throws: ResponderError.self) {
            _ = try await ResponderClient.call(url: url, request: [1])
        }
    }
}

/// How a JWS is answered: `ok`, or the code of its refusal.
private func code(_ verifier: JWSVerifier, _ jws: String) -> String {
    do {
        _ = try verifier.open(jws)
        return "ok"
    } catch {
        return error.code.rawValue
    }
}
