import AppStore
import HTTP
import Synchronization

/// One run of the service, which may die at any call that it makes: as near to kill -9 as one process comes.
///
/// From its death on its calls stand still, and none of it leaves any more. Once its sessions of the database are closed
/// `bury` lets what stands still end: nothing of it can be written then.
final class SimulatedProcess: HTTPSending {
    static let gone = HTTPClientError(.cannotConnect, "the process is dead")

    private struct State {
        var isDead = false
        var isBuried = false
        var onDeath: (@Sendable () -> Void)?
        var standing: [CheckedContinuation<Void, Never>] = []
    }

    private let wire: Wire
    private let state = Mutex(State())

    init(_ wire: Wire) { self.wire = wire }

    var isDead: Bool { state.withLock { $0.isDead } }

    /// Tells of its death, once: at once where it is dead already.
    func onDeath(_ tell: @escaping @Sendable () -> Void) {
        let isDead = state.withLock { state in
            if !state.isDead { state.onDeath = tell }
            return state.isDead
        }
        if isDead { tell() }
    }

    func die() {
        let tell = state.withLock { state in
            state.isDead = true
            return state.onDeath.take()
        }
        tell?()
    }

    /// Does not return before the burial where the process is dead, and throws then.
    func stopIfDead() async throws(HTTPClientError) {
        guard isDead else { return }
        await withCheckedContinuation { continuation in
            let isBuried = state.withLock { state in
                if !state.isBuried { state.standing.append(continuation) }
                return state.isBuried
            }
            if isBuried { continuation.resume() }
        }
        throw Self.gone
    }

    func bury() {
        let standing = state.withLock { state in
            state.isBuried = true
            defer { state.standing = [] }
            return state.standing
        }
        standing.forEach { $0.resume() }
    }

    func prepare(_ count: Int) async {}

    func send(
        _ request: HTTPRequest, leavingBefore: ContinuousClock.Instant?
    ) async throws(HTTPClientError) -> HTTPResponse {
        try await wire.send(request, of: self)
    }
}
