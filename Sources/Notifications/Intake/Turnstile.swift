internal import Dispatch
internal import Foundation

/// Lets as many threads compute at a time as there are cores; the others wait.
///
/// Each connection has a thread of its own. If dozens of them verified at the same time, they would only share the
/// cores and evict each other's cache lines, and all of them would finish late.
struct Turnstile: Sendable {
    private let places: DispatchSemaphore

    /// `places` is at least 1.
    init(places: Int = ProcessInfo.processInfo.activeProcessorCount) {
        self.places = DispatchSemaphore(value: max(1, places))
    }

    /// Runs a computation. It must not wait for anything, because it would block a core's place meanwhile.
    func pass<Value, Failure: Error>(
        _ work: () throws(Failure) -> Value
    ) throws(Failure) -> Value {
        places.wait()
        defer { places.signal() }
        return try work()
    }
}
