import HTTP
import Synchronization
import Testing

@testable import AppStore
@testable import RepricerCommands

/// Each break on the way of a test notification, by name.
@Suite struct NotificationPathTests {
    private struct Refused: Error, CustomStringConvertible {
        var description: String { "wrong_bundle: the bundle id is not ours" }
    }

    private static func reply(_ status: Int) -> StoreReply {
        StoreReply(HTTPResponse(status: status, body: []))
    }

    private static func entry(_ results: [String]) -> CallOutcome<NotificationHistoryPage.Entry> {
        .answered(
            .init(
                signedPayload: "a.b.c",
                sendAttempts: results.map { .init(result: $0) }), reply(200))
    }

    private static func refused<Value>(_ code: Int) -> CallOutcome<Value> {
        .refused(code: APIErrorCode(rawValue: code), message: "no", reply(code / 10_000))
    }

    /// Everything goes well but for what a case changes.
    private func path(
        request: CallOutcome<String> = .answered("token", reply(200)),
        statuses: [CallOutcome<NotificationHistoryPage.Entry>] = [entry(["SUCCESS"])],
        isOurs: Bool = true, isStored: Bool = true
    ) -> NotificationPath {
        let left = Mutex(statuses)
        return NotificationPath(
            request: { request },
            status: { _ in left.withLock { $0.count > 1 ? $0.removeFirst() : $0[0] } },
            verify: { _ in
                guard isOurs else { throw Refused() }
                return "uuid"
            },
            isStored: { _ in isStored }, wait: {}, questionsMax: 3)
    }

    @Test func path_whenWhole_reachesEveryStation() async throws {
        let finding = try await path().walk()

        #expect(finding.isWhole)
        #expect(finding.reached == PathStation.allCases)
        #expect(finding.notificationUUID == "uuid")
    }

    @Test func path_whenDeliveredAtTheSecondQuestion_isWhole() async throws {
        let finding = try await path(statuses: [
            Self.entry([]), Self.entry(["TIMED_OUT", "SUCCESS"]),
        ]).walk()

        #expect(finding.isWhole)
    }

    @Test func path_whenBroken_saysWhereAndWhy() async throws {
        let cases: [(NotificationPath, PathStation, String)] = [
            (path(request: Self.refused(4_010_000)), .requested, "token refused"),
            (path(request: Self.refused(401)), .requested, "token refused"),
            (path(request: Self.refused(4_040_007)), .requested, "no such URL"),
            (path(request: Self.refused(4_040_007)), .requested, "your-host/notifications"),
            (path(request: Self.refused(404)), .requested, "check REPRICER_API_BASE_URL"),
            (path(request: Self.refused(403)), .requested, "403 without a code"),
            (path(request: Self.refused(302)), .requested, "check REPRICER_API_BASE_URL"),
            (path(request: Self.refused(4_000_028)), .requested, "`repricer config check`"),
            (
                path(request: .unknown(reason: "5000000", StoreReply())), .requested,
                "no usable answer: 5000000"
            ),
            (
                path(statuses: [Self.entry(["UNSUCCESSFUL_HTTP_RESPONSE_CODE"])]), .delivered,
                "must end in /notifications"
            ),
            (path(request: .notSent(reason: "refused")), .requested, "can't be reached"),
            (path(statuses: [Self.entry([])]), .attempted, "not delivered yet"),
            (path(statuses: [Self.refused(4_040_008)]), .attempted, "its status is refused"),
            (
                path(statuses: [Self.entry(["UNSUCCESSFUL_HTTP_RESPONSE_CODE"])]), .delivered,
                "delivered but refused"
            ),
            (path(statuses: [Self.entry(["TLS_ISSUE"])]), .delivered, "no TLS connection"),
            (path(isOurs: false), .verified, "refused by us: wrong_bundle"),
            (
                path(
                    statuses: [Self.entry(["UNSUCCESSFUL_HTTP_RESPONSE_CODE"])], isOurs: false),
                .verified, "refused by us: wrong_bundle"
            ),
            (path(isStored: false), .stored, "not stored"),
        ]
        for (path, station, words) in cases {
            let finding = try await path.walk()

            #expect(finding.brokeAt == station)
            #expect(finding.problem?.contains(words) == true, "\(finding.problem ?? "")")
        }
    }
}
