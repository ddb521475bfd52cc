import Facts
package import Postgres

/// The approval policy: who may approve what. Only the owner of the database writes it.
package enum PolicyQueries {
    /// What one approver may approve alone. A limit of nil is no limit.
    package struct Limit: Sendable, Equatable {
        /// A database user, or a role whose members share the limits.
        package var approver: String
        package var rows: Int64?
        /// The limit of one price's change, up or down, in hundredths of a percent.
        package var basisPoints: Int64?
        /// The limits by currency, as JSON in milliunits a month.
        package var monthly: String?
        /// Whether this approver may approve only what another user has approved first.
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

    /// What no approver may approve alone, whoever they are, in hundredths of a percent of one price. A limit of nil
    /// is no limit.
    package struct Defaults: Sendable, Equatable {
        /// The limit of an increase.
        package var rise: Int64?
        /// The limit of a decrease, rounded to the nearest.
        package var fall: Int64?
        /// Whether these are the limits that the product ships with.
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
        return try Defaults(
            rise: row.int64OrNil("rise"), fall: row.int64OrNil("fall"),
            isShipped: row.bool("is_shipped"))
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

    /// The limits of this user that the batch exceeded, where the user approved it first.
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
