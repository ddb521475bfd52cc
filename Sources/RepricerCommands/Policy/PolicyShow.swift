import Batches

extension Commands {
    static let policyShow = Command(
        "policy show", "list who may approve batches, and up to which size",
        discussion: "Without any limit, any member of repricer_pricing but the submitter approves."
    ) { invocation in
        let configuration = try invocation.configuration()
        let limits = try await invocation.withPool(configuration) { pool in
            try await pool.withTransaction { try PolicyQueries.all(on: $0) }
        }
        let shown = PolicyShown(limits: limits)
        try invocation.print(invocation.isJSON ? shown.json.text + "\n" : shown.text)
        return .done
    }
}

/// The approval policy, for people and for programs.
struct PolicyShown {
    let limits: [PolicyQueries.Limit]

    var text: String {
        guard !limits.isEmpty else {
            return "no limits: any member of repricer_pricing but the submitter approves\n"
        }
        var table = Table([
            .left("APPROVER"), .right("ROWS"), .right("PERCENT"), .left("MILLIUNITS A MONTH"),
            .left("APPROVES"),
        ])
        for limit in limits {
            table.add([
                limit.approver, limit.rows.map { "\($0)" } ?? "any",
                limit.basisPoints.map { Self.percent($0) } ?? "any", limit.monthly ?? "any",
                limit.needsFirst ? "second only" : "alone",
            ])
        }
        return table.text
    }

    private static func percent(_ basisPoints: Int64) -> String {
        let (whole, rest) = basisPoints.quotientAndRemainder(dividingBy: 100)
        return rest == 0 ? "\(whole)" : "\(whole)." + (rest < 10 ? "0\(rest)" : "\(rest)")
    }

    var json: JSONValue {
        .object([
            "limits": .array(
                limits.map { limit in
                    .object([
                        "approver": .string(limit.approver), "max_rows": .number(limit.rows),
                        "max_basis_points": .number(limit.basisPoints),
                        "max_monthly_milliunits": limit.monthly.map(JSONValue.finished) ?? .null,
                        "needs_first": .bool(limit.needsFirst),
                    ])
                })
        ])
    }
}
