import Glibc
import Testing

@testable import HTTP

/// Who makes room when all places are taken.
@Suite struct ConnectionTableTests {
    /// One end of a connection; the other is held, so that it stays silent.
    private final class Pair {
        let socket: SocketDescriptor
        let peer: SocketDescriptor

        init() {
            var ends: [Int32] = [-1, -1]
            socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends)
            socket = SocketDescriptor(ends[0])
            peer = SocketDescriptor(ends[1])
        }
    }

    private let table = ConnectionTable()

    private func admit(
        _ pair: Pair, of holder: PeerAddress? = nil, max: Int, freshFor: Duration = .zero
    ) -> ConnectionSlot? {
        let admission = table.admit(
            pair.socket, of: holder, share: 2, max: max, freshFor: freshFor)
        guard case .admitted(let slot) = admission else { return nil }
        return slot
    }

    @Test func newcomer_whoseAddressHoldsItsShare_takesAPlaceOfItsOwnOrNone() throws {
        let (greedy, other) = (PeerAddress("192.0.2.1"), PeerAddress("192.0.2.2"))
        let pairs = (0..<6).map { _ in Pair() }
        let busy = try #require(admit(pairs[0], of: greedy, max: 9))
        let kept = try #require(admit(pairs[1], of: greedy, max: 9))
        let foreign = try #require(admit(pairs[2], of: other, max: 9))
        _ = (busy.enter(.handling), kept.enter(.kept))

        let third = try #require(admit(pairs[3], of: greedy, max: 9))
        _ = third.enter(.handling)

        #expect([busy, kept, foreign].map(\.mustLeave) == [false, true, false])
        #expect(admit(pairs[4], of: greedy, max: 9) == nil)
        #expect(admit(pairs[4], of: other, max: 9) != nil)
        for slot in [busy, kept] { table.leave(slot) }
        #expect(admit(pairs[5], of: greedy, max: 9) != nil)
    }

    @Test func newcomer_whenPlacesAreTaken_replacesTheLeastUsefulFirst() throws {
        let stages: [ConnectionSlot.Stage] = [
            .handling, .kept, .answering, .receiving, .silent, .silent, .closing,
        ]
        let pairs = (0..<12).map { _ in Pair() }
        let slots = try zip(pairs, stages).map { pair, stage in
            let slot = try #require(admit(pair, max: 7))
            #expect(slot.enter(stage))
            return slot
        }

        var order: [Int] = []
        for pair in pairs[7...] {
            let newcomer = try #require(admit(pair, max: 7))
            #expect(newcomer.enter(.handling))
            order.append(slots.indices.first { slots[$0].mustLeave && !order.contains($0) } ?? -1)
        }

        #expect(order == [6, 4, 5, 3, 2])
        #expect(table.count == 12)
    }

    @Test func newcomer_whenAllAreBusyOrFresh_isRefused() throws {
        let pairs = (0..<3).map { _ in Pair() }
        let busy = try #require(admit(pairs[0], max: 2))
        let fresh = try #require(admit(pairs[1], max: 2))
        _ = (busy.enter(.handling), fresh.enter(.receiving))

        #expect(admit(pairs[2], max: 2, freshFor: .seconds(60)) == nil)
        #expect(admit(pairs[2], max: 2, freshFor: .zero) != nil)
        #expect(fresh.mustLeave && !busy.mustLeave)
    }

    @Test func silentConnection_whoseRequestHasArrived_stays() throws {
        let pairs = (0..<3).map { _ in Pair() }
        let slots = try pairs.prefix(2).map { try #require(admit($0, max: 2)) }
        var byte: UInt8 = 0x47
        #expect(write(pairs[0].peer.number, &byte, 1) == 1)

        #expect(admit(pairs[2], max: 2) != nil)
        #expect(slots.map(\.mustLeave) == [false, true])
    }

    @Test func places_ofThoseWhoLeft_areFree() throws {
        let pairs = (0..<3).map { _ in Pair() }
        let first = try #require(admit(pairs[0], max: 1))
        _ = try #require(admit(pairs[1], max: 1))
        #expect(first.mustLeave)

        table.leave(first)

        #expect(table.count == 1)
        #expect(admit(pairs[2], max: 2) != nil)
        #expect(table.count == 2)
    }

    @Test func receiving_whenItMustLeave_canStillBeAnswered() throws {
        let pair = Pair()
        let slot = try #require(admit(pair, max: 1))
        _ = slot.enter(.receiving)

        #expect(slot.leave())

        var byte: UInt8 = 0
        #expect(read(pair.socket.number, &byte, 1) == 0)
        #expect(write(pair.socket.number, &byte, 1) == 1)
        #expect(!slot.enter(.handling))
    }

    @Test func endOfAll_tellsThemAndThoseWhoComeLater() throws {
        let pairs = (0..<2).map { _ in Pair() }
        let first = try #require(admit(pairs[0], max: 2))

        table.endAll()
        let later = try #require(admit(pairs[1], max: 2))

        #expect(first.mustLeave && later.mustLeave)
    }
}
