import Facts
package import Postgres

/// The approval policy: who may approve what. Written by the database's owner alone.
package enum PolicyQueries {
    /// What one approver may approve alone; nil is no limit.
    package struct Limit: Sendable, Equatable {
        /// A database user, or a role whose members share the limits.
        package var approver: String
        package var rows: Int64?
        /// Of one price, up or down, in hundredths of a percent.
        package var basisPoints: Int64?
        /// JSON: currency to milliunits a month.
        package var monthly: String?
        /// Approves only what somebody else has approved first.
        package var needsFirst = false

        package init(approver: String) {
            self.approver = approver
        }
    }

    package static func all(on connection: isolated PostgresConnection) throws -> [Limit] {
        try connection.query(
            """
            -- name: approvalLimits
            SELECT approver, max_rows, max_basis_points, max_monthly_milliunits::text AS monthly,
                needs_first
            FROM repricer.approval_limits ORDER BY approver
            """
        ).map { row in
            var limit = Limit(approver: try row.text("approver"))
            limit.rows = try row.int64OrNil("max_rows")
            limit.basisPoints = try row.int64OrNil("max_basis_points")
            limit.monthly = try row.textOrNil("monthly")
            limit.needsFirst = try row.bool("needs_first")
            return limit
        }
    }

    /// What one approver may not approve alone, whoever they are; nil is no limit. In hundredths of a percent of one
    /// price.
    package struct Defaults: Sendable, Equatable {
        /// Up.
        package var rise: Int64?
        /// Down, rounded to the nearest.
        package var fall: Int64?
        /// Whether they are those that the product ships with.
        package var isShipped: Bool

        package init(rise: Int64?, fall: Int64?, isShipped: Bool = false) {
            self.rise = rise
            self.fall = fall
            self.isShipped = isShipped
        }
    }

    package static func defaults(
        on connection: isolated PostgresConnection
    ) throws -> Defaults {
        let row = try connection.query(
            """
            -- name: defaultLimits
            SELECT round(max_rise_basis_points)::bigint AS rise, round(max_fall_basis_points)::bigint AS fall,
                is_shipped
            FROM repricer.default_limits
            """
        ).one()
        return Defaults(
            rise: try row.int64OrNil("rise"), fall: try row.int64OrNil("fall"),
            isShipped: try row.bool("is_shipped"))
    }

    package static func setDefaults(
        _ defaults: Defaults, at: Int64, on connection: isolated PostgresConnection
    ) throws {
        _ = try connection.decide(
            "setDefaultLimits",
            """
            repricer.set_default_limits(\(defaults.rise)::numeric, \(defaults.fall)::numeric,
                \(timestamp: at))
            """)
    }

    package static func set(
        _ limit: Limit, at: Int64, on connection: isolated PostgresConnection
    ) throws {
        _ = try connection.decide(
            "setApprovalLimit",
            """
            repricer.set_approval_limit(\(limit.approver)::text, \(limit.rows)::bigint,
                \(limit.basisPoints)::bigint, \(json: limit.monthly)::jsonb,
                \(limit.needsFirst), \(timestamp: at))
            """)
    }

    package static func drop(
        _ approver: String, at: Int64, on connection: isolated PostgresConnection
    ) throws {
        _ = try connection.decide(
            "dropApprovalLimit", "repricer.drop_approval_limit(\(approver)::text, \(timestamp: at))"
        )
    }

    /// What of a batch exceeded the limits of this user, who approved it first.
    package static func ownShortfall(
        _ batchID: String, on connection: isolated PostgresConnection
    ) throws -> [String] {
        try connection.query(
            """
            -- name: ownShortfall
            SELECT exceeded FROM repricer.first_approvals
            WHERE batch_id = \(uuid: batchID) AND approver = session_user
            """
        ).oneOrNil()?.texts("exceeded") ?? []
    }
}
