import AppStore
import Extensions
import HTTP
import Postgres
import Pricing
import ServiceKit
import Synchronization
import TestSupport
import Testing

/// An App Store that holds every call until it is let go: its caller checks like a dead one to others.
final class HeldExtensions: ExtensionCalls {
    let arrived: AsyncStream<Void>
    private let arrive: AsyncStream<Void>.Continuation
    private let gate: AsyncStream<Void>
    private let open: AsyncStream<Void>.Continuation
    private let held = Mutex(0)

    /// Calls that arrived.
    var count: Int { held.withLock { $0 } }

    init() {
        (arrived, arrive) = AsyncStream.makeStream()
        (gate, open) = AsyncStream.makeStream()
    }

    func letGo() { open.finish() }

    private func hold() async {
        held.withLock { $0 += 1 }
        arrive.yield()
        for await _ in gate {}
    }

    func extend(
        originalTransactionID: String, _ request: ExtensionRequest,
        leavingBefore: ContinuousClock.Instant?
    ) async -> CallOutcome<ExtensionAnswer> {
        await hold()
        return .unknown(reason: "let go", StoreReply())
    }

    func extendAll(
        _ request: MassExtensionRequest, leavingBefore: ContinuousClock.Instant?
    ) async -> CallOutcome<String> {
        await hold()
        return .unknown(reason: "let go", StoreReply())
    }

    func extensionStatus(
        productID: String, requestIdentifier: String
    ) async -> CallOutcome<MassExtensionStatus> {
        .unknown(reason: "none", StoreReply())
    }
}

@Suite(.database) struct ExtensionTakeoverTests {
    /// One holder calls and is silent; returns what another one has called this long after.
    private func calledByAnother(
        after pause: Duration, _ request: (ExtensionHarness) async throws -> Void
    ) async throws -> [String] {
        let harness = try await ExtensionHarness.make()
        try await harness.subscribe("1")
        try await request(harness)
        let held = HeldExtensions()
        let pool = try await harness.delivery.mortalPool()
        let silent = harness.extender(calls: held, pool: pool)
        let first = Task { try await silent.round() }
        for await _ in held.arrived { break }
        await pool.close()

        harness.pass(pause)
        try await harness.work(harness.extender())
        let called = harness.calls.identifiers
        held.letGo()
        // What it heard at last it can write down no more.
        await #expect(throws: (any Error).self) { try await first.value }
        await harness.delivery.close()
        return called
    }

    @Test func extension_ofAHolderThatIsSilent_isCalledUnderItsIdentifierWithinThirtySeconds()
        async throws
    {
        let called = try await calledByAnother(after: .seconds(28)) { try await $0.requestOne("1") }
        #expect(called == [ExtensionHarness.id(1)])
    }

    @Test func massExtension_ofAHolderThatIsSilent_isCalledUnderItsIdentifierWithinThirtySeconds()
        async throws
    {
        let called = try await calledByAnother(after: .seconds(28)) { try await $0.requestAll() }
        #expect(called == [ExtensionHarness.id(9)])
    }

    @Test func extension_whileItsLeaseLasts_isNobodyElses() async throws {
        let called = try await calledByAnother(after: .seconds(5)) { try await $0.requestOne("1") }
        #expect(called == [])
    }
}
