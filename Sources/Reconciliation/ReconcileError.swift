/// Why reconciling stopped before its end. What was done until then is kept, and the next run goes on from there.
package enum ReconcileError: Error, Hashable, Sendable, CustomStringConvertible {
    /// There was no answer, however often it was asked.
    case storeAway(String)
    /// Our key, or the question itself, was refused. The text says what that means.
    case refused(String)
    /// This service took none of what the App Store answered. The text says what that means.
    case untaken(String)
    /// The answers lead nowhere: pages without an end, or tokens that expire again and again.
    case brokenAnswer(String)
    case databaseAway(String)
    /// The database has been migrated for newer programs. The text says which.
    case outdated(String)
    /// Another process took the work over.
    case leaseLost

    package var description: String {
        switch self {
        case .storeAway(let why):
            "the App Store is away: \(why); run it again, it goes on from here"
        case .refused(let why): "the App Store refuses: \(why)"
        case .untaken(let why): why
        case .brokenAnswer(let why): "the App Store's answers lead nowhere: \(why)"
        case .databaseAway(let why): "a notification was not stored: \(why); run it again"
        case .outdated(let why): why
        case .leaseLost: "another process took reconciling over; what was done is kept"
        }
    }
}
