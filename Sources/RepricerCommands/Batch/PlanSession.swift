import Batches
import Postgres
import Pricing

/// A batch file that is ready to be planned: it was read once, and its rules are chosen.
struct PlanSession: Sendable {
    let input: BatchInput
    let outline: BatchOutline
    let asOf: Instant
    let environment: StoreEnvironment
    let terms: BatchTerms
    /// The rules that judge the rows and convert money.
    let rulesInForce: RulesInForce
    /// How many notifications have arrived but are not folded. Their content is not in the plan.
    let notificationsWaiting: Int64
    private let rules: RuleSet
    private let known: Instant?
    private let pool: PostgresPool

    /// `known`: the rules and past increases count as they were known then; nil stands for now.
    init(
        path: String, asOf: Instant, knownAt known: Instant? = nil, environment: StoreEnvironment,
        terms: BatchTerms,
        pool: PostgresPool
    ) async throws {
        self.asOf = asOf
        self.environment = environment
        self.terms = terms
        self.pool = pool
        self.known = known
        rules = try await pool.rules(at: asOf, knownAt: known)
        rulesInForce = rules.inForce(at: asOf)
        notificationsWaiting = try await pool.withTransaction {
            try StatusQueries.notificationsWaiting(on: $0)
        }
        input = try BatchInput(path: path)
        outline = try await BatchOutline(input, rules: rulesInForce)
    }

    var shownFile: String { input.path == "-" ? "(standard input)" : input.path }

    /// A hash to which no row was added yet.
    var emptyHash: PlanHash {
        PlanHash(rules: rulesInForce, environment: environment)
    }

    /// Judges all rows.
    func plan(into sink: some PlanSink) async throws {
        do throws(WavePlan.Fault) { try terms.waves?.requireAhead(of: asOf) } catch {
            throw UsageError("--waves: \(error)")
        }
        let planner = Planner(
            pool: pool, rules: rules, environment: environment, knownAt: known)
        try await planner.plan(
            input, outline: outline, waves: terms.waves, asOf: asOf, into: sink)
    }
}
