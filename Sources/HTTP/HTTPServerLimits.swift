/// What one server lets its clients use.
package struct HTTPServerLimits: Sendable {
    /// Connections served at once. For one more, the one that is worth least is closed: silent,
    /// slow and idle ones in this order, the oldest first. When all are busy it is answered 503.
    package var connectionsMax = 512
    /// Of these, what one address may hold: an IPv4 address, or a /64 of IPv6. One more connection of it is answered 503.
    package var addressSharePercent = 25
    /// Whose connections are those of many: they count against no share.
    package var proxies: [AddressRange] = ["127.0.0.1", "::1"].compactMap(AddressRange.init)
    /// For this long a request may be under way, or an answer unread, without counting as slow.
    package var freshFor = Duration.milliseconds(100)
    /// After the stop, how long a request may still take to arrive and an answer to be read.
    package var stopGrace = Duration.seconds(5)
    /// The start line and header fields of a request; 431 above.
    package var headBytesMax = 16 * 1024
    /// The body of a request; 413 above.
    package var bodyBytesMax = 1 << 20
    /// From the first byte of a request to its last, and again for writing the answer; 408 above.
    package var requestDeadline = Duration.seconds(30)
    /// How long a connection may wait for its next request before it is closed.
    package var idleTimeout = Duration.seconds(60)
    /// After a refusal, input up to this is read and dropped so that the peer can read the answer.
    package var drainBytesMax = 16 << 20
    /// How long that draining may last.
    package var drainTimeout = Duration.seconds(2)

    package init() {}

    /// Connections of one address.
    var addressMax: Int { max(1, connectionsMax * addressSharePercent / 100) }

    var message: MessageLimits {
        var limits = MessageLimits()
        limits.headBytesMax = headBytesMax
        limits.startLineBytesMax = min(limits.startLineBytesMax, headBytesMax)
        limits.bodyBytesMax = bodyBytesMax
        return limits
    }
}

/// Why a server cannot serve.
package struct HTTPServerError: Error, Equatable, CustomStringConvertible {
    package enum Code: Sendable {
        /// The address cannot be resolved or is not ours, or the port is taken.
        case cannotBind
        case badIdentity
    }

    package let code: Code
    package let reason: String

    package var description: String { reason }
}
