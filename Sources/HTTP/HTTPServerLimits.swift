/// The limits of one server.
package struct HTTPServerLimits: Sendable {
    /// The most connections served at once. For one more, another is closed: a silent, slow or idle one in this order,
    /// the oldest first. When all are busy the new one is answered 503.
    package var connectionsMax = 512
    /// The percentage of `connectionsMax` that one address may hold: an IPv4 address, or an IPv6 /64. Its further
    /// connections are answered 503.
    package var addressSharePercent = 25
    /// The addresses of proxies, whose connections belong to many clients and count against no share.
    package var proxies: [AddressRange] = ["127.0.0.1", "::1"].compactMap(AddressRange.init)
    /// How long a request may take to arrive, or an answer to be read, without counting as slow.
    package var freshFor = Duration.milliseconds(100)
    /// How long after the stop a request may still take to arrive, and an answer to be read.
    package var stopGrace = Duration.seconds(5)
    /// The most bytes of a request's start line and header fields. More is answered 431.
    package var headBytesMax = 16 * 1024
    /// The most bytes of a request's body. More is answered 413.
    package var bodyBytesMax = 1 << 20
    /// The limit from the first byte of a request to its last, and again for writing the answer. After it comes a
    /// 408.
    package var requestDeadline = Duration.seconds(30)
    /// How long a connection may wait for its next request before it is closed.
    package var idleTimeout = Duration.seconds(60)
    /// How much input is read and dropped after a refusal, so that the peer can read the answer.
    package var drainBytesMax = 16 << 20
    /// How long that draining may last.
    package var drainTimeout = Duration.seconds(2)
    /// How long connections must succeed again after a shortage of files, threads or places before the log reports its
    /// end.
    package var quietFor = Duration.seconds(10)

    package init() {}

    /// The most connections of one address.
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
