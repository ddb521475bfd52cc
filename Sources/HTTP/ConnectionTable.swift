import Glibc
import Synchronization

/// The served connections, and which of them must make room when a newcomer finds every place taken.
///
/// A connection whose handler runs never has to leave. The others leave in the order of how little they are worth to
/// an honest sender (`ConnectionSlot.Stage`).
///
/// Lock order: the table, then a slot.
final class ConnectionTable: Sendable {
    private struct State {
        var slots: [UInt64: ConnectionSlot] = [:]
        /// How many of them each address holds.
        var held: [PeerAddress: Int] = [:]
        var nextID: UInt64 = 0
        /// How many were told to go and are still here for a moment.
        var leaving = 0
        var rejecting = 0
        var isEnding = false
    }

    private static let leavingMax = 64
    private static let rejectsMax = 32
    /// For how many candidates the socket is examined before a newcomer is refused.
    private static let triesMax = 16

    private let state = Mutex(State())

    var count: Int { state.withLock { $0.slots.count } }

    enum Admission {
        case admitted(ConnectionSlot)
        /// All places are taken.
        case full
        /// The address has its share, whatever is free.
        case overShare
    }

    /// Gives the connection a place, and sends another away for it if necessary. A holder with its full share can
    /// only take the place of one of its own connections. `holder` is nil for who has no limit of its own.
    func admit(
        _ socket: SocketDescriptor, of holder: PeerAddress? = nil, share: Int = .max, max: Int,
        freshFor: Duration
    ) -> Admission {
        state.withLock { state in
            if let holder, state.held[holder, default: 0] >= share {
                guard makeRoom(&state, freshFor, among: { $0.holder == holder }) else {
                    return .overShare
                }
            } else if state.slots.count - state.leaving >= max {
                guard makeRoom(&state, freshFor, among: { _ in true }) else { return .full }
            }
            state.nextID += 1
            let slot = ConnectionSlot(id: state.nextID, socket: socket, holder: holder)
            state.slots[slot.id] = slot
            if let holder { state.held[holder, default: 0] += 1 }
            if state.isEnding, slot.leave() { state.leaving += 1 }
            return .admitted(slot)
        }
    }

    /// Whether a place may become free within `freshFor`: somebody holds one who has not had the time of an honest
    /// sender yet, or is about to leave.
    var isWorthWaiting: Bool {
        state.withLock { state in
            state.slots.values.contains { $0.mustLeave || $0.isOnTheWay }
        }
    }

    func leave(_ slot: ConnectionSlot) {
        state.withLock { state in
            state.slots[slot.id] = nil
            if let holder = slot.holder, let held = state.held[holder] {
                state.held[holder] = held > 1 ? held - 1 : nil
            }
            if slot.mustLeave { state.leaving -= 1 }
        }
    }

    /// Makes everybody go who still waits for its peer, because the time to finish is over.
    func endAll() {
        state.withLock { state in
            state.isEnding = true
            for slot in state.slots.values where slot.leave() { state.leaving += 1 }
        }
    }

    func enterReject() -> Bool {
        state.withLock { state in
            guard state.rejecting < Self.rejectsMax else { return false }
            state.rejecting += 1
            return true
        }
    }

    func leaveReject() {
        state.withLock { $0.rejecting -= 1 }
    }

    private func makeRoom(
        _ state: inout State, _ freshFor: Duration, among isCandidate: (ConnectionSlot) -> Bool
    ) -> Bool {
        guard state.leaving < Self.leavingMax else { return false }
        let now = Deadline.now
        let ranked = state.slots.values.lazy.filter(isCandidate)
            .compactMap { slot in slot.rank(now, freshFor).map { (rank: $0, slot: slot) } }
            .sorted { $0.rank < $1.rank }
        for candidate in ranked.prefix(Self.triesMax) where candidate.slot.leaveIfUseless(now) {
            state.leaving += 1
            return true
        }
        return false
    }
}

/// One served connection: what it is doing, and whether it has been told to go.
final class ConnectionSlot: Sendable {
    /// The stages in the order in which they make room, the oldest of each first.
    enum Stage: Int, Sendable {
        /// It was answered for the last time.
        case closing
        /// It is open, and has never asked for anything.
        case silent
        /// It has been inside a request or a TLS handshake for longer than an honest one needs.
        case receiving
        /// The peer does not take its answer.
        case answering
        /// It is kept alive after an answer.
        case kept
        /// Its handler runs, and it never has to go.
        case handling
    }

    struct Rank: Comparable {
        let stage: Int
        let since: Deadline
        /// Of two that began in the same tick of the clock, the earlier comer goes first.
        let id: UInt64

        static func < (left: Rank, right: Rank) -> Bool {
            (left.stage, left.since, left.id) < (right.stage, right.since, right.id)
        }
    }

    private struct State {
        var stage = Stage.silent
        var since = Deadline.now
        var mustLeave = false
    }

    let id: UInt64
    let socket: SocketDescriptor
    /// The address whose share it counts against; nil for nobody's.
    let holder: PeerAddress?
    private let state = Mutex(State())

    init(id: UInt64, socket: SocketDescriptor, holder: PeerAddress? = nil) {
        self.id = id
        self.socket = socket
        self.holder = holder
    }

    var mustLeave: Bool { state.withLock { $0.mustLeave } }

    /// Whether its peer has yet to send or to take something.
    var isOnTheWay: Bool {
        state.withLock { state in
            switch state.stage {
            case .closing, .silent, .receiving, .answering, .kept: true
            case .handling: false
            }
        }
    }

    /// Notes what the connection does from now on. Returns false when it must go instead.
    func enter(_ stage: Stage) -> Bool {
        state.withLock { state in
            state.stage = stage
            state.since = .now
            return !state.mustLeave
        }
    }

    /// Its place in the order of leaving; nil for who may stay.
    func rank(_ now: Deadline, _ freshFor: Duration) -> Rank? {
        state.withLock { state in
            guard !state.mustLeave else { return nil }
            switch state.stage {
            case .handling: return nil
            case .receiving, .answering:
                guard now - state.since >= freshFor else { return nil }
            case .closing, .silent, .kept: break
            }
            return Rank(stage: state.stage.rawValue, since: state.since, id: id)
        }
    }

    /// Makes the connection go unless it has just become useful.
    func leaveIfUseless(_ ranked: Deadline) -> Bool {
        state.withLock { state in
            guard !state.mustLeave, state.since <= ranked else { return false }
            switch state.stage {
            case .handling: return false
            case .silent, .kept:
                // Its request may have arrived without having been read yet.
                if SocketStream.isReadable(socket.number) { return false }
            case .closing, .receiving, .answering: break
            }
            Self.leave(&state, socket)
            return true
        }
    }

    /// Makes the connection go as soon as no handler runs. Returns false when it was told before.
    @discardableResult
    func leave() -> Bool {
        state.withLock { state in
            guard !state.mustLeave else { return false }
            Self.leave(&state, socket)
            return true
        }
    }

    private static func leave(_ state: inout State, _ socket: SocketDescriptor) {
        state.mustLeave = true
        switch state.stage {
        // Only its input ends, because an answer must still be written, even if it is 408.
        case .receiving, .handling: socket.endInput()
        case .closing, .silent, .kept, .answering: socket.breakOff()
        }
    }
}
