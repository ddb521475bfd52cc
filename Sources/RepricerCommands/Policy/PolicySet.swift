import Batches
import JSON
import Postgres
import Pricing
import Reports

extension Commands {
    private static let approver = Positional(
        "APPROVER",
        "a database user, a role whose members share the limits, or everyone: the default limits")
    private static let rows = ValueOption("rows", "N", "at most so many rows in a batch")
    private static let percent = ValueOption(
        "percent", "P", "no price may move by more, up or down; as 10 or 12.5")
    private static let monthly = ValueOption(
        "monthly", "LIMITS",
        "how far all prices together, of all seats, may move in a month, as USD=5000,EUR=4000")
    private static let second = Flag(
        "second", "may approve only what somebody else has approved first")
    private static let increase = ValueOption(
        "increase", "P", "of everyone: beyond an increase of P percent two approve; as 100")
    private static let decrease = ValueOption(
        "decrease", "P", "of everyone: beyond a decrease of P percent two approve; as 66.67")
    private static let removed = Flag("remove", "take the approver out of the policy")
    private static let everyone = "everyone"

    static let policySet = Command(
        "policy set", "say what an approver may approve alone (the database's owner only)",
        positionals: [approver],
        options: [rows, percent, monthly, second, increase, decrease, removed],
        discussion: """
            Replaces all limits of the approver; what is left out is unlimited. Beyond their limits an approval is \
            recorded as the first, and another approver, whose limits allow the batch, has to give the second. Once \
            one approver is named, nobody else approves; a user's own limits go before those of their roles. With \
            --monthly a currency that is left out may not move at all. The batch is measured at approval, by the \
            facts known then. Whoever approves, a second is needed beyond the default limits: shipped are an increase of \
            100 percent and a price below a third of today's. `policy set everyone` sets others, `--remove` drops them, \
            and an approver's own --percent goes before them.
            """
    ) { invocation in
        if invocation.arguments[approver] == everyone { return try await setDefaults(invocation) }
        guard invocation.arguments[increase] == nil, invocation.arguments[decrease] == nil else {
            throw UsageError("--increase and --decrease are limits of everyone; give --percent")
        }
        let limit = try limit(invocation.arguments)
        let isRemoved = invocation.arguments[removed]
        let isPlain = limit == PolicyQueries.Limit(approver: limit.approver)
        guard !isRemoved || isPlain else {
            throw UsageError("--remove takes no limits")
        }
        let currencies = (invocation.arguments[monthly] ?? "").split(separator: ",")
            .map { String($0.prefix { $0 != "=" }) }
        return try await invocation.withDatabase { pool, now in
            let current = try await pool.withTransaction { connection in
                if isRemoved {
                    try PolicyQueries.drop(limit.approver, at: now, on: connection)
                } else {
                    try requireKnown(currencies, at: now, on: connection)
                    try PolicyQueries.set(limit, at: now, on: connection)
                }
                return try Commands.policy(on: connection)
            }
            return try show(current, invocation)
        }
    }

    /// A limit in a currency that nobody is charged in is a typing error, and one that is left out may not move at all.
    private static func requireKnown(
        _ currencies: [String], at now: Int64, on connection: isolated PostgresConnection
    ) throws {
        let at = Instant(milliseconds: now)
        let rules = try RuleQueries.load(.from, at, knownAt: nil, on: connection).inForce(at: at)
        for currency in currencies where rules.currency(currency) == nil {
            throw UsageError("--monthly names \(currency), in which Apple has no prices")
        }
    }

    private static func setDefaults(_ invocation: Invocation) async throws -> ExitCode {
        let arguments = invocation.arguments
        let isOther =
            arguments[rows] != nil || arguments[percent] != nil || arguments[monthly] != nil
            || arguments[second]
        let defaults = PolicyQueries.Defaults(
            rise: try basisPoints(increase, arguments), fall: try basisPoints(decrease, arguments))
        let isEmpty = defaults.rise == nil && defaults.fall == nil
        guard !isOther, arguments[removed] == isEmpty else {
            throw UsageError("everyone takes --increase and --decrease, or --remove")
        }
        return try await invocation.withDatabase { pool, now in
            let current = try await pool.withTransaction { connection in
                try PolicyQueries.setDefaults(defaults, at: now, on: connection)
                return try Commands.policy(on: connection)
            }
            return try show(current, invocation)
        }
    }

    private static func limit(_ arguments: ParsedArguments) throws(UsageError)
        -> PolicyQueries.Limit
    {
        var limit = PolicyQueries.Limit(approver: try arguments.required(approver))
        limit.needsFirst = arguments[second]
        if let text = arguments[rows] {
            guard let number = Int64(text), number >= 0 else {
                throw UsageError("--rows cannot be \(quoted(text)); write a number, as 10000")
            }
            limit.rows = number
        }
        limit.basisPoints = try basisPoints(percent, arguments)
        if let text = arguments[monthly] { limit.monthly = try money(text) }
        return limit
    }

    /// Hundredths of a percent; nil where the option is not given.
    private static func basisPoints(
        _ option: ValueOption, _ arguments: ParsedArguments
    ) throws(UsageError) -> Int64? {
        guard let text = arguments[option] else { return nil }
        guard let hundredths = scaled(text, decimals: 2) else {
            throw UsageError(
                "--\(option.name) cannot be \(quoted(text)); write it as 10 or 12.5")
        }
        // No price can fall by more than 100 %, so a larger limit would be none.
        guard option.name != decrease.name || hundredths <= 10_000 else {
            throw UsageError("--decrease cannot be \(quoted(text)); write at most 100")
        }
        return hundredths
    }

    private static func money(_ text: String) throws(UsageError) -> String {
        var amounts: [String: Int64] = [:]
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let sides = part.split(separator: "=", omittingEmptySubsequences: false)
            guard sides.count == 2, let currency = sides.first, let amount = sides.last,
                currency.utf8.count == 3, currency.utf8.allSatisfy({ (65...90).contains($0) }),
                let milliunits = scaled(String(amount), decimals: 3)
            else {
                throw UsageError(
                    "--monthly cannot be \(quoted(text)); write it as USD=5000,EUR=4000.50")
            }
            guard amounts.updateValue(milliunits, forKey: String(currency)) == nil else {
                throw UsageError("--monthly names \(currency) twice")
            }
        }
        return JSONWriter.object {
            for (currency, amount) in amounts.sorted(by: { $0.key < $1.key }) {
                $0.label(currency)
                $0.value(amount)
            }
        }
    }

    /// A plain decimal, times ten to the power of `decimals`; nil where it is none, or has more of them.
    private static func scaled(_ text: String, decimals: Int) -> Int64? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard let whole = parts.first, parts.count <= 2 else { return nil }
        let fraction = parts.dropFirst().first ?? "0"
        let isPlain = !whole.isEmpty && !fraction.isEmpty && fraction.utf8.count <= decimals
        let digits =
            whole + fraction + String(repeating: "0", count: max(0, decimals - fraction.utf8.count))
        guard isPlain, digits.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return Int64(digits)
    }
}
