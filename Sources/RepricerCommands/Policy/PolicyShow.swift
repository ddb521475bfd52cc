import Batches
import JSON
import Postgres
import Reports

extension Commands {
    static let policyShow = Command(
        "policy show", "list who may approve batches, and up to which size",
        discussion: """
            Without limits of approvers, any member of repricer_pricing but the submitter approves. The default limits \
            ask for a second approver, whoever the first is.
            """
    ) { invocation in
        let current = try await invocation.withPool(try invocation.configuration()) { pool in
            try await pool.withTransaction { try Commands.policy(on: $0) }
        }
        return try show(current, invocation)
    }

    /// All limits that hold.
    struct Policy: Sendable {
        let limits: [PolicyQueries.Limit]
        let defaults: PolicyQueries.Defaults
    }

    static func policy(on connection: isolated PostgresConnection) throws -> Policy {
        Policy(
            limits: try PolicyQueries.all(on: connection),
            defaults: try PolicyQueries.defaults(on: connection))
    }

    /// The approval policy, for people and for programs.
    static func show(_ policy: Policy, _ invocation: Invocation) throws -> ExitCode {
        let columns: [Column<PolicyQueries.Limit>] = [
            .text("APPROVER", "approver") { $0.approver },
            .number("ROWS", "max_rows", none: "any") { $0.rows },
            .shown(.right("PERCENT")) { $0.basisPoints.map(percent) ?? "default" },
            .key("max_basis_points") { $0.basisPoints },
            .shown(.left("A MONTH")) { $0.monthly.map(amounts) ?? "any" },
            .key("max_monthly_milliunits") { $0.monthly.map(JSONValue.finished) },
            .shown(.left("APPROVES")) { $0.needsFirst ? "second only" : "alone" },
            .key("needs_first") { $0.needsFirst },
        ]
        let limits = policy.limits
        try invocation.print(
            json: [
                "limits": limits.json(columns),
                "default_limits": [
                    "max_rise_basis_points": policy.defaults.rise,
                    "max_fall_basis_points": policy.defaults.fall,
                    "is_shipped": policy.defaults.isShipped,
                ] as JSONValue,
            ],
            (limits.isEmpty
                ? sentence(
                    "no limits of approvers: any member of repricer_pricing but the submitter approves"
                )
                : limits.table(columns)) + said(policy.defaults))
        return .done
    }

    private static func said(_ defaults: PolicyQueries.Defaults) -> String {
        let beyond = [
            defaults.rise.map { "an increase of more than \(percent($0)) %" },
            defaults.fall.map { "a decrease of more than \(percent($0)) %" },
        ].compactMap { $0 }
        guard !beyond.isEmpty else { return "no default limits: one approver may suffice\n" }
        return sentence(
            "\(defaults.isShipped ? "shipped default" : "default"): two approve "
                + beyond.joined(separator: " or "))
    }

    /// `{"EUR":4000000,"USD":5000000}` as people write it: `4,000.00 EUR, 5,000.00 USD`.
    private static func amounts(_ limits: String) -> String {
        var amounts: [String] = []
        JSONDocument.read(Array(limits.utf8))?.forEachMember { currency, limit in
            guard let currency = currency.text else { return }
            amounts.append(limit.int64.map { amount($0, currency) } ?? "\(limit.raw) \(currency)")
        }
        return amounts.isEmpty ? limits : amounts.joined(separator: ", ")
    }

    private static func percent(_ basisPoints: Int64) -> String {
        let (whole, rest) = basisPoints.quotientAndRemainder(dividingBy: 100)
        return rest == 0 ? "\(whole)" : "\(whole)." + (rest < 10 ? "0\(rest)" : "\(rest)")
    }
}
