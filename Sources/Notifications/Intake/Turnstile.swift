internal import Dispatch
internal import Foundation

/// Lets as many threads compute at once as there are cores; the others wait for their turn.
///
/// Each connection has a thread of its own. When dozens verify at the same moment they only take turns on the cores
/// and push each other's data out of the caches, and all of them end late.
struct Turnstile: Sendable {
    private let places: DispatchSemaphore

    /// `places` is at least 1.
    init(places: Int = ProcessInfo.processInfo.activeProcessorCount) {
        self.places = DispatchSemaphore(value: max(1, places))
    }

    /// Runs a computation. It must not wait for anything, because it would hold a core's place for nothing.
    func pass<Value, Failure: Error>(
        _ work: () throws(Failure) -> Value
    ) throws(Failure) -> Value {
        places.wait()
        defer { places.signal() }
        return try work()
    }
}
