/// How a command ended, as a shell sees it. The numbers are a contract.
package enum ExitCode: Int32, Sendable, CaseIterable {
    case done = 0
    case failed = 1
    case usage = 2
    case inputRejected = 3
    case approvalNeededOrRefused = 4
    case conflict = 5
    /// The database or the App Store cannot be reached.
    case unavailable = 6
    case interrupted = 130
}
