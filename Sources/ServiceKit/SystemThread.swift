import Glibc

/// A thread of the system, for what Swift's shared pool must not carry: code that blocks, and waiting.
enum SystemThread {
    private final class Start {
        let name: String
        let body: () -> Void

        init(_ name: String, _ body: @escaping () -> Void) {
            self.name = name
            self.body = body
        }
    }

    /// Runs `body` on a new thread, which ends with it. Returns 0, or the system's code when it refuses another one.
    static func start(named name: String, _ body: @escaping @Sendable () -> Void) -> Int32 {
        var thread = pthread_t()
        let start = Unmanaged.passRetained(Start(name, body))
        let code = pthread_create(
            &thread, nil,
            { argument in
                guard let argument else { return nil }
                let start = Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
                SystemThread.nameThread(start.name)
                start.body()
                return nil
            }, start.toOpaque())
        if code == 0 { pthread_detach(thread) } else { start.release() }
        return code
    }

    /// Shows the name in `top -H`; a failure is harmless.
    ///
    /// Through a file, because Swift imports neither the GNU call nor prctl.
    private static func nameThread(_ name: String) {
        guard let file = fopen("/proc/thread-self/comm", "we") else { return }
        fputs(String(name.prefix(15)), file)
        fclose(file)
    }
}
