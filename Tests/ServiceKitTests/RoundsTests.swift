import Synchronization
import Testing

@testable import ServiceKit

@Suite struct RoundsTests {
    private struct Broken: Error {}

    /// Where one part of a round fails, the others are cancelled, and their error may be the one that comes out.
    @Test func roundOfWhichAPartWasCancelled_isTriedAgain() async throws {
        let count = Mutex(0)
        let (rounds, done) = AsyncStream.makeStream(of: Int.self)
        let failures = Mutex(0)

        let task = Task {
            await Rounds(
                log: .silent, failure: "failed", failureWait: .zero, wait: { _ in },
                count: { failures.withLock { $0 += 1 } }
            ).run {
                let number = count.withLock { count in
                    count += 1
                    return count
                }
                switch number {
                case 1: throw CancellationError()
                case 2: throw Broken()
                default:
                    done.yield(number)
                    while !Task.isCancelled { await Task.yield() }
                    throw CancellationError()
                }
            }
        }
        var reached: Int?
        for await number in rounds {
            reached = number
            break
        }
        task.cancel()
        await task.value

        #expect(reached == 3)
        #expect(failures.withLock(\.self) == 2)
    }
}
