import Postgres
import TestSupport

@testable import RepricerCommands

/// Two people of pricing, ana and ben, with subscriptions that a test writes as the fold would.
struct PricingTeam {
    let ana: [String: String]
    let ben: [String: String]
    let scratch: ScratchFolder

    /// - Parameters:
    ///   - subscriptions: A query of the columns below, and then of those that `further` names.
    ///   - changes: What is written afterwards.
    init(
        subscriptions: String, further: String = "", changes: String = ""
    ) async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            INSERT INTO repricer.subscriptions (original_transaction_id, bucket, status, auto_renews,
                storefront, currency, period, product_id, original_purchase_at, app_account_token,
                recent_subscription_start_at, purchased_at, expires_at, renewal_at, items,
                signed_at, folded_signed_at, folded_evidence_id, known_since\(further))
            \(subscriptions);
            \(changes)
            """)
        await connection.close()
        ana = Self.environment(try await TestDatabase.login("ana", memberOf: ["repricer_pricing"]))
        ben = Self.environment(try await TestDatabase.login("ben", memberOf: ["repricer_pricing"]))
        scratch = try ScratchFolder()
    }

    static func environment(_ url: String) -> [String: String] {
        ["REPRICER_DATABASE_URL": url, "REPRICER_ENVIRONMENT": "Production"]
    }
}
