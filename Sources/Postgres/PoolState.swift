/// Who has which connection and who waits: the pool without its input and output.
///
/// `openCount` counts slots: connections that are idle, lent, or being opened. A freed slot goes to
/// the oldest waiter, which then opens a connection itself.
struct PoolState {
    typealias Waiter = CheckedContinuation<Grant, any Error>

    /// What a user may go on with.
    enum Grant: Sendable {
        /// A connection that lay idle; it may have died meanwhile.
        case idle(PostgresConnection)
        /// The right to open one.
        case slot
    }

    enum Answer {
        case granted(Grant)
        case wait(ticket: UInt64)
        case closed
    }

    enum Enlisting {
        case listed, cancelled, closed
        case granted(Grant)
    }

    struct Handover {
        let waiter: Waiter?
        let grant: Grant
        /// The connection lives on, with the waiter or idle.
        let isKept: Bool
    }

    private let size: Int
    private(set) var openCount = 0
    private var idle: [PostgresConnection] = []
    private var queue: [(ticket: UInt64, waiter: Waiter)] = []
    /// Tickets whose waiter is not enlisted yet; giving up removes them.
    private var announced: Set<UInt64> = []
    private var lastTicket: UInt64 = 0
    private var isClosed = false

    init(size: Int) {
        self.size = size
    }

    private mutating func immediateGrant() -> Grant? {
        if let connection = idle.popLast() { return .idle(connection) }
        guard openCount < size else { return nil }
        openCount += 1
        return .slot
    }

    mutating func request() -> Answer {
        guard !isClosed else { return .closed }
        if queue.isEmpty, let grant = immediateGrant() { return .granted(grant) }
        lastTicket += 1
        announced.insert(lastTicket)
        return .wait(ticket: lastTicket)
    }

    /// Between `request` and here a connection may have become free, or the task been cancelled.
    mutating func enlist(_ ticket: UInt64, _ waiter: Waiter) -> Enlisting {
        guard announced.remove(ticket) != nil else { return .cancelled }
        if isClosed { return .closed }
        if queue.isEmpty, let grant = immediateGrant() { return .granted(grant) }
        queue.append((ticket, waiter))
        return .listed
    }

    /// Takes a waiter out of the queue; nil when it was served already, or will be turned away when
    /// it comes to enlist.
    mutating func abandon(_ ticket: UInt64) -> Waiter? {
        announced.remove(ticket)
        guard let index = queue.firstIndex(where: { $0.ticket == ticket }) else { return nil }
        return queue.remove(at: index).waiter
    }

    /// Takes back a connection, or with nil the slot of one that is gone.
    mutating func release(_ connection: PostgresConnection?) -> Handover? {
        if isClosed {
            openCount -= 1
            return connection.map { Handover(waiter: nil, grant: .idle($0), isKept: false) }
        }
        if !queue.isEmpty {
            let waiter = queue.removeFirst().waiter
            return Handover(
                waiter: waiter, grant: connection.map { .idle($0) } ?? .slot,
                isKept: connection != nil)
        }
        if let connection { idle.append(connection) } else { openCount -= 1 }
        return nil
    }

    mutating func close() -> (idle: [PostgresConnection], waiters: [Waiter]) {
        defer {
            openCount -= idle.count
            idle = []
            queue = []
        }
        isClosed = true
        return (idle, queue.map(\.waiter))
    }
}
