package import AppStore
import Pricing

/// The App Store client as the engine sees it, with its outcomes as `StoreAnswer`. Each kind of call adds its own
/// requests.
package struct LiveStoreCalls: StatusCalls {
    package let client: AppStoreClient

    package init(client: AppStoreClient) {
        self.client = client
    }

    package func checkStatus(transactionID: String) async -> StoreAnswer {
        let outcome = await client.subscriptionStatuses(transactionID: transactionID)
        return StoreAnswer(outcome) { StoreWords($0) }
    }
}
