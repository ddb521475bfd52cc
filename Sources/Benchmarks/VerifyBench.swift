import AppStore
import Foundation
import JOSE
import Synchronization

/// `verify`: whole notifications verified and decoded, against the bare OpenSSL operations that they need.
///
/// The product and bare OpenSSL alternate over the same payloads, so that other load on the machine affects both.
/// Figures are medians.
enum VerifyBench {
    private static let rounds = 15

    static func run(_ options: Options) async throws {
        let folder = try options.text("folder")
        let payloads = try PayloadReader.payloads(
            folder: folder, limit: try options.integer("count", 300))
        let bench = try VerifyRounds(payloads: payloads, rootPath: "\(folder)/root.pem")
        try bench.measureRate(rounds: rounds)
        try bench.measureThreads(rounds: rounds)
        try bench.measureColdChain(rounds: 100)
        try bench.measureFlood(rounds: 5)
    }
}

/// Notifications a second, verified by the product and by bare OpenSSL.
struct ThreadRates {
    var one: Double
    var two: Double
    var bareOne: Double
    var bareTwo: Double
}

final class VerifyRounds: Sendable {
    /// So few that product and bare OpenSSL alternate faster than the machine's load changes.
    private static let slice = 20

    private let payloads: [String]
    private let roots: TrustedRoots
    private let notifications: NotificationVerifier
    private let verifier: JWSVerifier
    private let now = Int64(Date().timeIntervalSince1970 * 1000)
    private let signed: [[[UInt8]]]
    private let chain: [[UInt8]]
    private let averageBytes: Int

    init(payloads: [String], rootPath: String) throws {
        self.payloads = payloads
        roots = try TrustedRoots(certificatesIn: rootPath)
        verifier = try JWSVerifier(roots: roots)
        notifications = NotificationVerifier(
            verifier: verifier, bundleID: PayloadFile.bundleID, appAppleID: nil,
            environment: .sandbox)
        signed = try payloads.map(Self.signatures)
        guard let first = payloads.first else { throw BenchmarkFailure("no payloads") }
        chain = try Self.chain(first)
        averageBytes = payloads.reduce(0) { $0 + $1.utf8.count } / payloads.count
        let seen = try notifications.verify(signedPayload: first, nowMilliseconds: now)
        guard seen.event != nil else { throw BenchmarkFailure("a payload says nothing") }
    }

    /// The JWS of a notification: itself, its transaction, its renewal.
    private static func signatures(_ payload: String) throws -> [[UInt8]] {
        let body = try CompactJWS(parsing: payload).payload
        let object = try JSONSerialization.jsonObject(with: Data(body)) as? [String: Any]
        guard let data = object?["data"] as? [String: Any],
            let transaction = data["signedTransactionInfo"] as? String,
            let renewal = data["signedRenewalInfo"] as? String
        else { throw BenchmarkFailure("a payload lacks its parts") }
        return [payload, transaction, renewal].map { Array($0.utf8) }
    }

    /// Leaf, intermediate, root, DER.
    private static func chain(_ payload: String) throws -> [[UInt8]] {
        let header = try CompactJWS(parsing: payload).header
        let object = try JSONSerialization.jsonObject(with: Data(header)) as? [String: Any]
        guard let texts = object?["x5c"] as? [String] else {
            throw BenchmarkFailure("a header lacks its chain")
        }
        return texts.compactMap(Base64.decode)
    }

    private func bare(_ part: some Sequence<[[UInt8]]>) throws -> BareVerification {
        try BareVerification(
            notifications: Array(part), leaf: chain[0], decode: { Base64URL.decode($0) })
    }

    private func verify(_ part: some Sequence<String>) throws {
        for payload in part {
            _ = try notifications.verify(signedPayload: payload, nowMilliseconds: now)
        }
    }

    func measureRate(rounds: Int) throws {
        let bare = try bare(signed)
        var (product, ceiling) = ([Double](), [Double]())
        let starts = stride(from: 0, to: payloads.count, by: Self.slice)
        for start in repeatElement(starts, count: rounds).joined() {
            let part = start..<min(start + Self.slice, payloads.count)
            product.append(Double(part.count) / (try seconds { try verify(payloads[part]) }))
            ceiling.append(Double(part.count) / (try seconds { try bare.run(part) }))
        }
        figure(
            "notifications_per_second", median(product), "1/s", ceiling: median(ceiling),
            note: "one core, \(averageBytes) bytes on average, 3 JWS, chain cached")
    }

    func measureThreads(rounds: Int) throws {
        let rates = try threadRates(rounds: rounds)
        figure(
            "two_thread_speedup", rates.two / rates.one, "x",
            ceiling: rates.bareTwo / rates.bareOne,
            note: "two threads over one; same for bare OpenSSL")
    }

    /// The rates of one thread and of two, of the product and of bare OpenSSL, in turns.
    ///
    /// Whichever thread is free takes the next ten, as a server's threads do: shares fixed beforehand would
    /// measure the slower of two cores.
    func threadRates(rounds: Int) throws -> ThreadRates {
        let product: @Sendable (Range<Int>) throws -> Void = { [self] in try verify(payloads[$0]) }
        // Each is used by one thread only.
        nonisolated(unsafe) let bares = [try bare(signed), try bare(signed)]
        let first: @Sendable (Range<Int>) throws -> Void = { try bares[0].run($0) }
        let second: @Sendable (Range<Int>) throws -> Void = { try bares[1].run($0) }
        var (one, two, bareOne, bareTwo) = ([Double](), [Double](), [Double](), [Double]())
        for _ in 0..<rounds {
            one.append(try sharedRate([product]))
            two.append(try sharedRate([product, product]))
            bareOne.append(try sharedRate([first]))
            bareTwo.append(try sharedRate([first, second]))
        }
        return ThreadRates(
            one: median(one), two: median(two), bareOne: median(bareOne), bareTwo: median(bareTwo))
    }

    /// Notifications a second of threads that share all of them.
    private func sharedRate(_ threads: [@Sendable (Range<Int>) throws -> Void]) throws -> Double {
        let pieces = stride(from: 0, to: payloads.count, by: 10).map {
            $0..<min($0 + 10, payloads.count)
        }
        let next = Mutex(0)
        return try rate {
            try Workers.run(
                threads.map { work in
                    {
                        while true {
                            let piece = next.withLock { taken in
                                defer { taken += 1 }
                                return taken
                            }
                            guard piece < pieces.count else { return }
                            try work(pieces[piece])
                        }
                    }
                })
        }
    }

    /// Times the first JWS under an unknown chain, including the parsing of its header and certificates.
    func measureColdChain(rounds: Int) throws {
        var (times, bare) = ([Double](), [Double]())
        for index in 0..<rounds {
            let fresh = try JWSVerifier(roots: roots)
            let jws = payloads[index % payloads.count]
            times.append(try seconds { _ = try fresh.open(jws) } * 1000)
            bare.append(try seconds { try BareVerification.checkChain(chain) } * 1000)
        }
        figure(
            "cold_chain_ms", median(times), "ms", ceiling: median(bare),
            note:
                "one JWS under an unknown chain; ceiling: OpenSSL's check of the chain's two signatures"
        )
    }

    /// Times one thread's valid traffic while four others verify forged chains, each a new one, as fast as they can.
    func measureFlood(rounds: Int) throws {
        var (alone, flooded) = ([Double](), [Double]())
        for round in 0..<rounds {
            alone.append(try rate { try verify(payloads) })
            let isOver = Mutex(false)
            let floods = (0..<4).map { thread in
                { @Sendable [self] in
                    var number = (round * 4 + thread) << 32
                    while !isOver.withLock({ $0 }) {
                        number += 1
                        try refuse(forged(number))
                    }
                }
            }
            flooded.append(
                try rate {
                    try Workers.run(
                        floods + [
                            { [self] in
                                defer { isOver.withLock { $0 = true } }
                                try verify(payloads)
                            }
                        ])
                })
        }
        figure(
            "flooded_notifications_per_second", median(flooded), "1/s", ceiling: median(alone),
            note:
                "one thread of good ones beside four of forged chains, all distinct; ceiling: without them"
        )
    }

    /// The App Store's chain with a leaf that its intermediate did not sign.
    private func forged(_ number: Int) throws -> String {
        var leaf = chain[0]
        for place in 1...8 {
            leaf[leaf.count - place] = UInt8(truncatingIfNeeded: number >> (8 * (place - 1)))
        }
        let list = [leaf, chain[1], chain[2]].map { "\"\(Base64.encode($0))\"" }
            .joined(separator: ",")
        let header = Array("{\"alg\":\"ES256\",\"x5c\":[\(list)]}".utf8)
        let zeros = [UInt8](repeating: 0, count: 64)
        return "\(Base64URL.encode(header)).e30.\(Base64URL.encode(zeros))"
    }

    private func refuse(_ jws: String) throws {
        do {
            _ = try verifier.open(jws)
        } catch {
            guard error.code == .chain || error.code == .certificate else { throw error }
            return
        }
        throw BenchmarkFailure("a forged chain was accepted")
    }

    /// Notifications per second of a body that processes all of them once.
    private func rate(_ body: () throws -> Void) rethrows -> Double {
        Double(payloads.count) / (try seconds(body))
    }

    private func seconds(_ body: () throws -> Void) rethrows -> Double {
        let start = ContinuousClock.now
        try body()
        return (ContinuousClock.now - start) / .seconds(1)
    }

    private func median(_ values: [Double]) -> Double {
        let sorted = values.sorted()
        return sorted[sorted.count / 2]
    }

    private func figure(
        _ name: String, _ value: Double, _ unit: String, ceiling: Double? = nil, note: String
    ) {
        let text = { (number: Double) in String(format: number < 100 ? "%.2f" : "%.0f", number) }
        let limit = ceiling.map {
            ",\"ceiling\":\(text($0)),\"ratio\":\(String(format: "%.2f", value / $0))"
        }
        print(
            "{\"bench\":\"verify\",\"figure\":\"\(name)\",\"value\":\(text(value)),"
                + "\"unit\":\"\(unit)\"\(limit ?? ""),\"note\":\"\(note)\"}")
    }
}

/// Threads of their own, started together.
private enum Workers {
    static func run(_ jobs: [@Sendable () throws -> Void]) throws {
        let failure = Mutex<(any Error)?>(nil)
        let group = DispatchGroup()
        for job in jobs {
            group.enter()
            Thread.detachNewThread {
                do { try job() } catch { failure.withLock { $0 = $0 ?? error } }
                group.leave()
            }
        }
        group.wait()
        if let error = failure.withLock({ $0 }) { throw error }
    }
}
