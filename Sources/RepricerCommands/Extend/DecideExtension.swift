import Extensions
import Facts
import Pricing

/// `approve` and `reject` of a mass extension: the same second pair of eyes as for a batch.
enum ExtensionDecision {
    /// The mass extension of this id; nil where there is none. Throws for the extension of one subscription, of
    /// which nobody decides.
    static func find(_ text: String, pool: LedgerPool) async throws -> ExtensionQueries.Mass? {
        guard ExtensionArguments.isUUID(text) else { return nil }
        let id = text.lowercased()
        let (mass, lines) = try await pool.withTransaction { connection in
            let mass = try ExtensionQueries.mass(id, on: connection)
            return (mass, mass == nil ? try ExtensionQueries.lines(of: id, on: connection) : [])
        }
        guard mass == nil, lines.contains(where: { $0.originalTransactionID != nil }) else {
            return mass
        }
        throw CommandFailure(
            .conflict,
            "\(id) extends one subscription, which needs no approval and can't be taken back; "
                + "see `repricer extend status \(id)`")
    }

    static func approve(
        _ mass: ExtensionQueries.Mass, _ invocation: Invocation, now: Instant, pool: LedgerPool
    ) async throws -> ExitCode {
        let exceeded = try await pool.withTransaction { connection in
            try ExtensionQueries.approve(mass.extensionID, at: now.milliseconds, on: connection)
        }
        if invocation.isJSON {
            try invocation.print(
                .object([
                    "extension_id": .string(mass.extensionID),
                    "state": .string(exceeded == nil ? "queued" : mass.state),
                    "needs_second_approver": .bool(exceeded != nil),
                    "exceeded": .array((exceeded ?? []).map(JSONValue.string)),
                ]))
        } else if exceeded == nil {
            try invocation.print(
                "approved \(mass.extensionID): all of \(harmless(mass.productID)) by \(mass.days) days\n"
            )
        }
        guard let exceeded else { return .done }
        throw CommandFailure(
            .approvalNeededOrRefused,
            "your approval of \(mass.extensionID) is recorded as the first; a second approver is "
                + "needed: \(harmless(exceeded.joined(separator: "; ")))")
    }

    static func reject(
        _ mass: ExtensionQueries.Mass, reason: String?, _ invocation: Invocation, now: Instant,
        pool: LedgerPool
    ) async throws -> ExitCode {
        try await pool.withTransaction { connection in
            try ExtensionQueries.reject(
                mass.extensionID, reason: reason, at: now.milliseconds, on: connection)
        }
        if invocation.isJSON {
            try invocation.print(
                .object([
                    "extension_id": .string(mass.extensionID), "state": .string("rejected"),
                ]))
        } else {
            try invocation.print("rejected \(mass.extensionID): nothing was extended\n")
        }
        return .done
    }
}
