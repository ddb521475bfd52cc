import Glibc

/// How many files, sockets included, the process may open: `RLIMIT_NOFILE` of getrlimit(2).
package enum OpenFiles {
    /// What systemd gives to the unit. Where a container allows a thousand million, nothing is won by more.
    private static let enough: rlim_t = 65_536

    /// Raises the limit as far as the process may by itself, to 65,536 at most, and returns it. Where files run out, no connection can be
    /// accepted, and libdispatch ends the process.
    package static func raiseLimit() -> UInt64 {
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return .max }
        var raised = limit
        raised.rlim_cur = max(limit.rlim_cur, min(limit.rlim_max, enough))
        return setrlimit(resource, &raised) == 0 ? UInt64(raised.rlim_cur) : UInt64(limit.rlim_cur)
    }
}
