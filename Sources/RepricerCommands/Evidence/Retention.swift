import Notifications
import Postgres
import Pricing
import ServiceKit

extension Commands {
    private static let keep = ValueOption(
        "keep", "TIME",
        "how long evidence is kept: months or years, such as 13m or 2y; at least 7m",
        isRequired: true)
    private static let dryRun = Flag("dry-run", "only say what would be dropped")

    private static let minutes = ValueOption(
        "minutes", "N", "stop after so many; the next run goes on there (default: 240)")

    static let retention = Command(
        "retention", "drop what is too old, a month at a time", options: [keep, dryRun, minutes],
        discussion: """
            Drops each month that ended before TIME ago: of notifications with their ids, of decoded statements, of the \
            history of changes, and of what was known before it was replaced. Settled calls, done status checks and \
            statements that came too late leave a few at a time. What stays: facts, states, charges, money, kept figures, \
            closed months, the audit trail, and of each subscription a checkpoint from which folding goes on. Reports of \
            a past before that are refused. A month with work that is not folded stays, and so does one whose table \
            somebody else reads until the end of --minutes: exit code 5. Run it as the owner of the database, as \
            `repricer migrate`.
            """
    ) { invocation in
        let text = try invocation.arguments.required(keep)
        let months = try RetentionTime.months(text)
        let configuration = try invocation.configuration()
        try configuration.checkIfSet(.bundleID, .environment)
        let clock = try await configuration.makeClock(dependencies: invocation.dependencies)
        let limit = try RetentionTime.minutes(invocation.arguments[minutes])
        let isDry = invocation.arguments[dryRun]
        let dependencies = invocation.dependencies
        invocation.waiting.tell(
            isDry ? "looking for what is too old" : "dropping what is too old")
        let (result, rest, horizon) = try await invocation.withPool(configuration) { pool in
            try await DecidingClock.check(configuration, pool)
            let now = Instant(milliseconds: try await DecidingClock.now(by: clock, pool))
            let horizon = now.advanced(byMonths: -months).milliseconds
            let start = ContinuousClock.now
            let end = start + .seconds(60 * limit)
            var run = RetentionRun(horizon: horizon, isDry: isDry)
            var rest = RuleRun(horizon: horizon, isDry: isDry, start: start, end: end)
            try await run.run(pool)
            try await rest.run(pool)
            if !isDry { try await run.forgetIDs(pool) { ContinuousClock.now >= end } }
            // A backup or a long report may lock a table for most of the night, so months that it held are retried
            // until the end.
            while !isDry, run.isHeldUp || rest.isHeldUp, ContinuousClock.now < end {
                try await dependencies.wait(MonthLock.pause)
                try await run.tryAgain(pool) { ContinuousClock.now >= end }
                try await rest.tryAgain(pool)
            }
            return (run, rest, horizon)
        }
        try invocation.print(
            json: result.json(keep: text) + rest.json(), result.text() + rest.text())
        if result.isEmpty && rest.isEmpty && !invocation.isJSON {
            invocation.note("nothing ended before \(horizon.instantText)")
        }
        for line in result.keptLines() + rest.keptLines() { dependencies.say(line) }
        if !rest.isComplete {
            invocation.note("statements are not done yet: the next run goes on with them")
        }
        return result.hasKept || rest.hasKept ? .conflict : .done
    }
}

/// `--keep`.
enum RetentionTime {
    /// The App Store can resend the notifications of 180 days, so ids of younger ones must be kept.
    static let monthsMin = 7
    private static let monthsMax = 1200

    static func minutes(_ text: String?) throws(UsageError) -> Int {
        guard let text else { return 240 }
        guard let minutes = Int(text), (0...10_080).contains(minutes) else {
            throw UsageError(
                "--minutes cannot be \(quoted(text)); write a whole number from 0 to 10080")
        }
        return minutes
    }

    static func months(_ text: String) throws(UsageError) -> Int {
        let factor =
            switch text.last {
            case "m": 1
            case "y": 12
            default: 0
            }
        guard factor > 0, let count = Int(text.dropLast()), count > 0, count <= monthsMax else {
            throw UsageError(
                "--keep cannot be \(quoted(text)); write months or years, such as 13m or 2y")
        }
        guard count * factor >= monthsMin else {
            throw UsageError(
                "--keep cannot be under \(monthsMin)m: the App Store tells the notifications of 180 days again"
            )
        }
        return count * factor
    }
}
