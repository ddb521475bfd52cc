import Batches

extension Commands {
    static let policyShow = Command(
        "policy show", "list who may approve batches, and up to which size",
        discussion: "Without any limit, any member of repricer_pricing but the submitter approves."
    ) { invocation in
        let limits = try await invocation.withPool(try invocation.configuration()) { pool in
            try await pool.withTransaction { try PolicyQueries.all(on: $0) }
        }
        return try show(limits, invocation)
    }

    /// The approval policy, for people and for programs.
    static func show(_ limits: [PolicyQueries.Limit], _ invocation: Invocation) throws -> ExitCode {
        let columns: [Column<PolicyQueries.Limit>] = [
            .text("APPROVER", "approver") { $0.approver },
            .number("ROWS", "max_rows", none: "any") { $0.rows },
            .shown(.right("PERCENT")) { $0.basisPoints.map(percent) ?? "any" },
            .key("max_basis_points") { $0.basisPoints },
            .shown(.left("MILLIUNITS A MONTH")) { $0.monthly ?? "any" },
            .key("max_monthly_milliunits") { $0.monthly.map(JSONValue.finished) },
            .shown(.left("APPROVES")) { $0.needsFirst ? "second only" : "alone" },
            .key("needs_first") { $0.needsFirst },
        ]
        try invocation.print(
            json: ["limits": limits.json(columns)],
            limits.isEmpty
                ? "no limits: any member of repricer_pricing but the submitter approves\n"
                : limits.table(columns))
        return .done
    }

    private static func percent(_ basisPoints: Int64) -> String {
        let (whole, rest) = basisPoints.quotientAndRemainder(dividingBy: 100)
        return rest == 0 ? "\(whole)" : "\(whole)." + (rest < 10 ? "0\(rest)" : "\(rest)")
    }
}
