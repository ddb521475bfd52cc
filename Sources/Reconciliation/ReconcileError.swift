/// Why reconciling stopped before its end. Its work so far is kept, and the next run continues from there.
package enum ReconcileError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The App Store gave no answer, after several tries.
    case storeAway(String)
    /// Our key, or the request itself, was refused. The text says what that means.
    case refused(String)
    /// This service refused all entries in the App Store's answer. The text says what that means.
    case untaken(String)
    /// The answers never end: too many pages, pages in a circle, or tokens that expire again and again.
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
