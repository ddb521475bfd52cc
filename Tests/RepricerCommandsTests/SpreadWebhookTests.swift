import Facts
import TestSupport
import Testing

/// A spread database is asked bucket by bucket; what the receiver gets is the same.
@Suite(.database) struct SpreadWebhookTests {
    private typealias Story = @Sendable (WebhookTests) async throws -> Void

    private static let stories: [(name: String, body: Story)] = [
        ("all is said", { try await $0.webhook_overTLS_isSignedAndSaysAll() }),
        (
            "receiver fails",
            { try await $0.webhook_receiverFails_waitsAndKeepsTheOrderOfItsSubscription() }
        ),
        (
            "process dies",
            { try await $0.webhook_processDiesInTheMiddle_theNextOneSendsTheSameEventFirst() }
        ),
        (
            "several replicas",
            { try await $0.webhook_severalReplicas_deliverEachOnceAndInOrder() }
        ),
    ]

    @Test(arguments: stories.map(\.name))
    func story_whereTheDatabaseIsSpread_endsTheSame(name: String) async throws {
        let story = try #require(Self.stories.first { $0.name == name })

        try await DatabaseLayout.$assumed.withValue(.spread) {
            try await story.body(WebhookTests())
        }
    }
}
