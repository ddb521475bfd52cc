import Glibc

/// The system's figures about this process, under the names that Prometheus' own clients use. They are read at each
/// scrape.
package enum ProcessFigures {
    /// Reports the figures from now on.
    ///
    /// - Parameter proc: Where proc(5) is mounted. A sandbox may show nothing there but processes.
    package static func report(to metrics: Metrics, proc: String = "/proc") {
        metrics.declareCounter(
            "process_cpu_seconds_total", "CPU time of the process, user and system.")
        metrics.declareGauge("process_resident_memory_bytes", "Memory that is in use.")
        metrics.declareGauge("process_virtual_memory_bytes", "Address space that is in use.")
        metrics.declareGauge("process_open_fds", "Open files and sockets.")
        metrics.declareGauge("process_max_fds", "Open files and sockets at most.")
        metrics.declareGauge("process_threads", "Threads of the process.")
        metrics.declareGauge(
            "process_start_time_seconds", "When the process started, in seconds since 1970.")
        // It is read once: computed from two clocks at every scrape it would change slightly, and a change means a
        // restart.
        metrics.set("process_start_time_seconds", to: startedAt(proc))
        metrics.onRender { set(on: $0, proc) }
    }

    /// When the process started, in UNIX seconds. Where the system does not say, it is now, because this is called at
    /// the start.
    private static func startedAt(_ proc: String) -> Double {
        let now = seconds(CLOCK_REALTIME)
        guard let started = Fields(proc)?[22] else { return now }
        return now - seconds(CLOCK_BOOTTIME) + started / ticks
    }

    private static func seconds(_ clock: clockid_t) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1_000_000_000
    }

    private static var ticks: Double { Double(max(1, sysconf(Int32(_SC_CLK_TCK)))) }

    /// The fields of `/proc/self/stat`.
    private struct Fields {
        private let fields: [Substring]

        init?(_ proc: String) {
            guard let stat = ProcessFigures.text("\(proc)/self/stat"),
                let end = stat.lastIndex(of: ")")
            else {
                return nil
            }
            // The fields follow the name, which may hold anything.
            fields = stat[stat.index(after: end)...].split(separator: " ")
        }

        /// By the number in proc(5); field 3 is the first one here.
        subscript(_ number: Int) -> Double? {
            let place = number - 3
            return fields.indices.contains(place) ? Double(fields[place]) : nil
        }
    }

    private static func set(on metrics: Metrics, _ proc: String) {
        guard let field = Fields(proc) else { return }
        if let user = field[14], let system = field[15] {
            metrics.set("process_cpu_seconds_total", toTotal: (user + system) / ticks)
        }
        if let threads = field[20] { metrics.set("process_threads", to: threads) }
        if let virtual = field[23] { metrics.set("process_virtual_memory_bytes", to: virtual) }
        if let pages = field[24] {
            let page = Double(max(1, sysconf(Int32(_SC_PAGESIZE))))
            metrics.set("process_resident_memory_bytes", to: pages * page)
        }
        if let open = openFiles(proc) { metrics.set("process_open_fds", to: Double(open)) }
        var limit = rlimit()
        if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 {
            metrics.set("process_max_fds", to: Double(limit.rlim_cur))
        }
    }

    private static func openFiles(_ proc: String) -> Int? {
        guard let folder = opendir("\(proc)/self/fd") else { return nil }
        defer { closedir(folder) }
        // Neither `.` and `..` count nor the descriptor with which this folder is read.
        var count = -3
        while readdir(folder) != nil { count += 1 }
        return max(0, count)
    }

    private static func text(_ path: String) -> String? {
        guard let file = fopen(path, "r") else { return nil }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 64 * 1024)
        let count = fread(&bytes, 1, bytes.count, file)
        return String(decoding: bytes.prefix(count), as: UTF8.self)
    }
}
