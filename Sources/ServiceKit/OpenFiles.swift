import Glibc

/// How many files, sockets included, the process may open: `RLIMIT_NOFILE` of getrlimit(2).
package enum OpenFiles {
    /// Raises the limit to what the process may ask for by itself, and returns it. Where files run out, no connection can be
    /// accepted, and libdispatch ends the process.
    package static func raiseLimit() -> UInt64 {
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return .max }
        var raised = limit
        raised.rlim_cur = limit.rlim_max
        return setrlimit(resource, &raised) == 0 ? UInt64(raised.rlim_cur) : UInt64(limit.rlim_cur)
    }
}
