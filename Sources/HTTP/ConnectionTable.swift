import Glibc
import Synchronization

/// The served connections. It decides which of them must close when a new connection finds every place taken.
///
/// A connection whose handler runs is never closed. The others are closed in the order of `ConnectionSlot.Stage`, those
/// first that an honest sender would miss least.
///
/// Lock order: the table, then a slot.
final class ConnectionTable: Sendable {
    private struct State {
        var slots: [UInt64: ConnectionSlot] = [:]
        /// How many of them each address holds.
        var held: [PeerAddress: Int] = [:]
        var nextID: UInt64 = 0
        /// How many were told to close and are not closed yet.
        var leaving = 0
        var rejecting = 0
        var isEnding = false
    }

    private static let leavingMax = 64
    private static let rejectsMax = 32
    /// How many candidates are examined before a new connection is refused.
    private static let triesMax = 16

    private let state = Mutex(State())

    var count: Int { state.withLock { $0.slots.count } }

    enum Admission {
        case admitted(ConnectionSlot)
        /// All places are taken.
        case full
        /// The address has its full share, whether or not places are free.
        case overShare
    }

    /// Gives the connection a place, and closes another one for it if necessary. A holder with its full share can only
    /// take the place of one of its own connections. `holder` is nil for a peer without a share, such as a proxy.
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

    /// Whether a place may become free within `freshFor`: some connection waits for its peer, or is about to close.
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

    /// Closes every connection that still waits for its peer, because the time to finish is over.
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

/// One served connection: its stage, and whether it has been told to close.
final class ConnectionSlot: Sendable {
    /// The stages in the order in which connections are closed to make room, the oldest of each stage first.
    enum Stage: Int, Sendable {
        /// Its last answer has been sent.
        case closing
        /// It is open, and has not sent a request yet.
        case silent
        /// It has been inside a request or a TLS handshake for longer than an honest one needs.
        case receiving
        /// The peer does not take its answer.
        case answering
        /// It is kept alive after an answer.
        case kept
        /// Its handler runs, so it is never closed.
        case handling
    }

    struct Rank: Comparable {
        let stage: Int
        let since: Deadline
        /// Of two stages that began in the same tick of the clock, the connection that was accepted earlier is closed
        /// first.
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
    /// The address whose share it counts against; nil where it counts against none.
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

    /// Enters a stage. Returns false when the connection must close instead.
    func enter(_ stage: Stage) -> Bool {
        state.withLock { state in
            state.stage = stage
            state.since = .now
            return !state.mustLeave
        }
    }

    /// Its place in the order of closing; nil where it may stay.
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

    /// Closes the connection unless it has just become useful.
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

    /// Tells the connection to close as soon as no handler runs. Returns false when it was told before.
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
