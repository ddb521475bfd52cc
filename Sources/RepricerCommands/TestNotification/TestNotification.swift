import AppStore
import Facts
import HTTP
import Pricing
import ServiceKit

extension Commands {
    private static let patience = ValueOption(
        "timeout", "SECONDS", "how long to wait for the delivery, 1 to 600 (default 30)")

    static let testNotification = Command(
        "test-notification", "prove the way of notifications from the App Store to the inbox",
        options: [patience],
        discussion: """
            Asks the App Store for a TEST notification and follows it: requested, attempted, delivered, verified, \
            stored. Prints each station that was reached, and what broke and what to do about it (exit code 1; 6 where \
            the App Store is out of reach).
            """
    ) { invocation in
        let seconds = try seconds(invocation)
        let configuration = try invocation.configuration()
        try configuration.check(
            Live.common + [.issuerID, .keyID, .keyFile, .apiBaseURL, .apiCAFile])
        let live = try await Live(invocation, configuration)
        let client = try live.client(HTTPClientLimits())
        let verifier = try live.notificationVerifier()
        let clock = live.clock
        let finding = try await invocation.withPool(configuration) { pool in
            try await NotificationPath(
                request: { await client.requestTestNotification() },
                status: { await client.testNotificationStatus(token: $0) },
                verify: {
                    try verifier.verify(signedPayload: $0, nowMilliseconds: clock.nowMilliseconds())
                        .notificationUUID
                },
                isStored: { uuid in
                    try await pool.withTransaction {
                        try EvidenceQueries.storedAt(uuid, on: $0) != nil
                    }
                },
                wait: { try await Task.sleep(for: .seconds(1)) }, questionsMax: seconds
            ).walk()
        }
        return try tell(finding, invocation)
    }

    private static func seconds(_ invocation: Invocation) throws -> Int {
        guard let text = invocation.arguments[patience] else { return 30 }
        guard let seconds = Int(text), (1...600).contains(seconds) else {
            throw UsageError("--timeout cannot be \(quoted(text)); write 1 to 600 seconds")
        }
        return seconds
    }

    private static func tell(
        _ finding: PathFinding, _ invocation: Invocation
    ) throws -> ExitCode {
        let code: ExitCode =
            finding.isWhole ? .done : finding.isAppStoreAway ? .unavailable : .failed
        var text = PathStation.allCases.filter(finding.reached.contains)
            .map { "ok      \($0.rawValue): \($0.meaning)\n" }.joined()
        if let station = finding.brokeAt {
            text += "broken  \(station.rawValue): \(harmless(finding.problem ?? ""))\n"
        }
        if let uuid = finding.notificationUUID {
            text += "        notification \(harmless(uuid))\n"
        }
        try invocation.print(
            json: [
                "ok": finding.isWhole, "reached": finding.reached.map(\.rawValue),
                "broke_at": finding.brokeAt?.rawValue, "problem": finding.problem,
                "notification_uuid": finding.notificationUUID,
            ], text)
        return code
    }
}
