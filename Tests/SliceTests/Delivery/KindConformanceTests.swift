import Calls
import Dependents
import Extensions
import HTTP
import Postgres
import ServiceKit
import TestSupport
import Testing

@testable import AppStore
@testable import Pricing

/// "What a refusal of Apple means" for the kinds of call that belong to no batch: every documented code, and thirty that are
/// not, each for one subscription while others succeed.
@Suite(.database) struct KindConformanceTests {
    private static let refusals = RefusalTable.refusals

    /// In the order of their ids one that succeeds follows each that does not.
    private static func other(_ code: Int) -> String { "\(code)5" }

    fileprivate static func refusal(of id: String) -> Int? { id.utf8.count == 7 ? Int(id) : nil }

    private static func isFinal(_ code: Int) -> Bool { RefusalTable.final.contains(code) }

    private static func texts(_ harness: DeliveryHarness, _ sql: String) async throws -> [String:
        String]
    {
        try await harness.service.withConnection { connection in
            try await connection.query(SQL(unsafe: sql)).reduce(into: [:]) { found, row in
                found[try row.text("id")] = try row.textOrNil("text") ?? ""
            }
        }
    }

    @Test func oddRefusalOfEachCode_ofAnExtension_endsOrParksItAlone() async throws {
        let harness = try await ExtensionHarness.make()
        var number = 0
        for code in Self.refusals {
            for id in ["\(code)", Self.other(code)] {
                number += 1
                try await harness.subscribe(id)
                try await harness.requestOne(id, number)
            }
        }
        let extender = harness.extender(calls: CodedExtensions(harness.calls), perSecond: 1000)

        for _ in 0..<4 { try await harness.work(extender) }
        // A refusal that may mean "done already" is checked first.
        try await harness.passUntilChecked(extender)

        let states = try await Self.texts(
            harness.delivery,
            """
            SELECT original_transaction_id AS id, concat_ws(' ', state, settled_by) AS text
            FROM repricer.extension_requests
            """)
        for code in Self.refusals {
            #expect(states[Self.other(code)] == "extended answer")
            #expect(
                states["\(code)"] == (Self.isFinal(code) ? "refused answer" : "queued"), "\(code)")
        }
        await harness.delivery.close()
    }

    @Test func oddRefusalOfEachCode_ofAMassExtension_endsOrParksItAlone() async throws {
        let harness = try await ExtensionHarness.make()
        var number = 0
        for code in Self.refusals {
            for product in ["\(code)", Self.other(code)] {
                number += 1
                try await harness.requestAll(number, of: product)
            }
        }
        let extender = harness.extender(calls: CodedExtensions(harness.calls), perSecond: 1000)

        for _ in 0..<45 {
            try await harness.work(extender)
            harness.pass(.seconds(2))
        }

        let states = try await Self.texts(
            harness.delivery,
            "SELECT product_id AS id, state AS text FROM repricer.mass_extensions")
        for code in Self.refusals {
            #expect(states[Self.other(code)] == "running", "beside \(code)")
            // It goes on under its identifier, of which the App Store says what became of it; a stale token needs another.
            let waits = code == 4_000_082 ? "queued" : "unknown"
            #expect(states["\(code)"] == (Self.isFinal(code) ? "refused" : waits), "\(code)")
        }
        await harness.delivery.close()
    }

    /// Some thirteen at a time, since fifteen refusals in a row, with whatever codes, would halt their kind.
    @Test(arguments: 0..<14)
    func oddRefusalOfEachCode_ofACancellation_endsOrParksItAlone(part: Int) async throws {
        let codes = Self.refusals.enumerated()
            .filter { $0.offset % 14 == part }.map(\.element)
        let targets = codes.flatMap { ["\($0)", Self.other($0)] }
        let harness = try await DeliveryHarness.make()
        try await harness.subscribe("1", items: ["A", "B"])
        for id in targets { try await harness.subscribe(id, items: ["FAR\(id)"]) }
        try await harness.raise(dependents: targets.map { "\($0)/FAR\($0)" })
        harness.run(to: 13)
        try await harness.tellIncrease("PENDING", on: 13)
        harness.run(to: 40)
        try await harness.tellRenewal(items: ["B"])
        harness.run(to: 41)
        let store = harness.cancellingStore(
            items: Dictionary(
                uniqueKeysWithValues: [("1", ["B"])] + targets.map { ($0, ["FAR\($0)"]) }))
        let canceller = harness.canceller(
            store, cancels: CodedCancels(inner: store), perRound: 100)

        let sql = """
            SELECT split_part(dependent_sku, '/', 1) AS id, state AS text
            FROM repricer.dependent_cancellations
            """
        var states: [String: String] = [:]
        // A permit that a slow machine misses costs its dependent a round.
        for round in 1...160 {
            try await harness.run(canceller)
            guard round >= 40 else { continue }
            states = try await Self.texts(harness, sql)
            if codes.allSatisfy({ states[Self.other($0)] == "confirmed" }) { break }
        }

        for code in codes {
            #expect(states[Self.other(code)] == "confirmed")
            #expect(
                (states["\(code)"] == "discrepancy") == Self.isFinal(code),
                "\(code) \(states["\(code)"] ?? "")")
        }
        await harness.close()
    }

    /// It says that the app of our key is not the one, so it says nothing of the subscription that was asked for.
    @Test(arguments: [(4_000_002, true), (4_040_003, true), (4_040_010, false)])
    func statusOfADependent_refusedForOurApp_endsNothing(code: Int, waits: Bool) async throws {
        let harness = try await DeliveryHarness.declined()
        let store = harness.cancellingStore()
        store.answerChecks(
            StoreAnswer(
                CallOutcome<Void>.refused(
                    code: APIErrorCode(rawValue: code), message: "as scripted",
                    StoreReply(HTTPResponse(status: code / 10_000, body: [])))
            ) { StoreWords([]) })

        try await harness.run(harness.canceller(store), rounds: 20)

        #expect(
            try await harness.dependents() == ["2/FAR \(waits ? "requested" : "discrepancy")"])
        #expect(store.calls.isEmpty)
        await harness.close()
    }
}

/// Refuses the extensions of subscriptions that are called as a code with that code.
private struct CodedExtensions: ExtensionCalls {
    let inner: ScriptedExtensions

    init(_ inner: ScriptedExtensions) { self.inner = inner }

    func extend(
        originalTransactionID: String, _ request: ExtensionRequest,
        leavingBefore: ContinuousClock.Instant?
    ) async -> CallOutcome<ExtensionAnswer> {
        guard let code = KindConformanceTests.refusal(of: originalTransactionID) else {
            return await inner.extend(
                originalTransactionID: originalTransactionID, request, leavingBefore: leavingBefore)
        }
        return .refused(
            code: APIErrorCode(rawValue: code), message: "as scripted",
            StoreReply(HTTPResponse(status: code / 10_000, body: [])))
    }

    func extendAll(
        _ request: MassExtensionRequest, leavingBefore: ContinuousClock.Instant?
    ) async -> CallOutcome<String> {
        guard let code = KindConformanceTests.refusal(of: request.productId) else {
            return await inner.extendAll(request, leavingBefore: leavingBefore)
        }
        return .refused(
            code: APIErrorCode(rawValue: code), message: "as scripted",
            StoreReply(HTTPResponse(status: code / 10_000, body: [])))
    }

    func extensionStatus(
        productID: String, requestIdentifier: String
    ) async -> CallOutcome<MassExtensionStatus> {
        await inner.extensionStatus(productID: productID, requestIdentifier: requestIdentifier)
    }
}

/// The same of cancellations.
private struct CodedCancels: CancelCalls {
    let inner: CancellingStore

    func cancel(
        _ intent: CancelIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        guard let code = KindConformanceTests.refusal(of: intent.transactionID) else {
            return await inner.cancel(intent, leavingBefore: leavingBefore)
        }
        return StoreAnswer(
            CallOutcome<Void>.refused(
                code: APIErrorCode(rawValue: code), message: "as scripted",
                StoreReply(HTTPResponse(status: code / 10_000, body: [])))
        ) { StoreWords([]) }
    }
}
