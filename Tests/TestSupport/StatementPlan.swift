import Foundation
package import Postgres

/// The plan of one statement: as the server executed it, whoever sent it, or as it would.
package struct StatementPlan: Sendable {
    package struct Scan: Sendable {
        /// The table or partition.
        package var relation: String
        package var kind: String
        package var index: String?
        /// It looks up a key, or a part of one.
        package var hasKey: Bool
        /// It is done again for each row of something else.
        package var isRepeated: Bool
    }

    /// The `-- name:` of the statement.
    package var name: String
    package var text: String
    /// Where it was executed, those that were reached.
    package var scans: [Scan] = []

    init?(json: Data) throws {
        let plan = try JSONSerialization.jsonObject(with: json) as? [String: Any]
        guard let text = plan?["Query Text"] as? String,
            let name = text.prefixMatch(of: /-- name: (\w+)/)?.1,
            let root = plan?["Plan"] as? [String: Any]
        else { return nil }
        self.name = String(name)
        self.text = text
        add(root)
    }

    /// The plan that the server makes for this statement, whatever its values.
    package func explained(
        on connection: isolated PostgresConnection
    ) throws -> StatementPlan {
        let values = text.matches(of: /\$(\d+)/).compactMap { Int($0.1) }.max() ?? 0
        let nulls = Array(repeating: "NULL", count: values).joined(separator: ", ")
        try connection.script(
            "SET plan_cache_mode = force_generic_plan; PREPARE asked AS \(text)")
        let json = try connection.query(
            """
            EXPLAIN (FORMAT JSON) EXECUTE asked \(unsafe: values == 0 ? "" : "(\(nulls))")
            """
        ).one().text("QUERY PLAN")
        try connection.script("DEALLOCATE asked")
        var plan = self
        plan.scans = []
        let all = try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [[String: Any]]
        if let root = all?.first?["Plan"] as? [String: Any] { plan.add(root) }
        return plan
    }

    private mutating func add(_ node: [String: Any], isRepeated: Bool = false) {
        let below = node["Plans"] as? [[String: Any]] ?? []
        let kind = node["Node Type"] as? String ?? ""
        if let relation = node["Relation Name"] as? String, kind.hasSuffix("Scan"),
            (node["Actual Loops"] as? Double ?? 1) > 0
        {
            let parts = [node] + below
            scans.append(
                Scan(
                    relation: relation, kind: kind,
                    index: parts.lazy.compactMap { $0["Index Name"] as? String }.first,
                    hasKey: parts.contains { $0["Index Cond"] != nil }, isRepeated: isRepeated))
        }
        for child in below {
            let place = child["Parent Relationship"] as? String
            let isInner = kind == "Nested Loop" && place == "Inner"
            add(child, isRepeated: place != "InitPlan" && (isRepeated || isInner))
        }
    }
}

extension TestDatabase {
    /// Runs `body` with another fresh database, which everything in it then means, and returns the plans that its statements
    /// had. The server writes one log for all databases, and each line bears its own.
    ///
    /// - Parameters:
    ///   - template: The database that it is a copy of.
    ///   - settings: Of its sessions, by name.
    package static func plans(
        of template: String = TestCluster.template, settings: [String: String],
        in body: @Sendable () async throws -> Void
    ) async throws -> [StatementPlan] {
        let log = try FileHandle(
            forReadingFrom: URL(
                fileURLWithPath: "\(required.socketFolder.dropLast("/socket".count))/log"))
        let before = try log.seekToEnd()
        let name = try await withAnother(of: template) {
            let all = settings.merging([
                "session_preload_libraries": "auto_explain", "auto_explain.log_min_duration": "0",
                "auto_explain.log_analyze": "on", "auto_explain.log_timing": "off",
                "auto_explain.log_format": "json",
            ]) { own, _ in own }
            let connection = try await connect()
            for (name, value) in all {
                try await connection.script(
                    "ALTER DATABASE \(required.name) SET \(name) = '\(value)'")
            }
            await connection.close()
            try await body()
            return required.name
        }
        try log.seek(toOffset: before)
        return try plans(in: try log.readToEnd() ?? Data(), of: name)
    }

    /// The plans of a database in a log: each a line that ends with `plan:`, and then its lines, which begin with a tab.
    private static func plans(in log: Data, of database: String) throws -> [StatementPlan] {
        var plans: [StatementPlan] = []
        var json: Data?
        var place = 0
        while place < log.count {
            let end = endOfLine(in: log, from: place)
            let line = log[place..<end]
            place = min(end + 1, log.count)
            if line.first == UInt8(ascii: "\t") {
                json?.append(line)
                continue
            }
            if let json, let plan = try StatementPlan(json: json) { plans.append(plan) }
            let isPlan =
                line.suffix(5).elementsEqual("plan:".utf8)
                && line.range(of: Data(" \(database) LOG: ".utf8)) != nil
            json = isPlan ? Data() : nil
        }
        if let json, let plan = try StatementPlan(json: json) { plans.append(plan) }
        return plans
    }

    /// A log has some hundred megabytes, and tests are not optimised.
    private static func endOfLine(in log: Data, from place: Int) -> Int {
        log.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress,
                let found = memchr(base + place, Int32(UInt8(ascii: "\n")), bytes.count - place)
            else { return bytes.count }
            return base.distance(to: UnsafeRawPointer(found))
        }
    }
}
