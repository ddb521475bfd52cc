import Glibc

/// How many files, sockets included, the process may open: `RLIMIT_NOFILE` of getrlimit(2).
package enum OpenFiles {
    /// The limit that systemd gives to the unit. A container may allow a thousand million, but more than this gains
    /// nothing.
    private static let enough: rlim_t = 65_536

    /// Raises the soft limit to the hard limit, at most to 65,536, and returns it. Where descriptors run out, no
    /// connection can be accepted, and libdispatch ends the process.
    package static func raiseLimit() -> UInt64 {
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return .max }
        var raised = limit
        raised.rlim_cur = max(limit.rlim_cur, min(limit.rlim_max, enough))
        return setrlimit(resource, &raised) == 0 ? UInt64(raised.rlim_cur) : UInt64(limit.rlim_cur)
    }
}
