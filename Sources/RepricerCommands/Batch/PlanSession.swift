import Batches
import Postgres
import Pricing

/// A batch file on its way to be planned: read once, with the rules that will judge it.
struct PlanSession: Sendable {
    let input: BatchInput
    let outline: BatchOutline
    let asOf: Instant
    let environment: StoreEnvironment
    let terms: BatchTerms
    private let rules: RuleSet
    private let pool: PostgresPool

    init(
        path: String, asOf: Instant, environment: StoreEnvironment, terms: BatchTerms,
        pool: PostgresPool
    ) async throws {
        self.asOf = asOf
        self.environment = environment
        self.terms = terms
        self.pool = pool
        rules = try await pool.rules(at: asOf)
        input = try BatchInput(path: path)
        outline = try BatchOutline(input, rules: rules.inForce(at: asOf))
    }

    var shownFile: String { input.path == "-" ? "(standard input)" : input.path }

    /// A hash that no row was added to yet.
    var emptyHash: PlanHash {
        PlanHash(rules: rules.inForce(at: asOf), environment: environment)
    }

    /// Judges all rows.
    func plan(into sink: some PlanSink) async throws {
        let planner = Planner(pool: pool, rules: rules, environment: environment)
        try await planner.plan(input, outline: outline, asOf: asOf, into: sink)
    }
}
