/// Every `notification_type` of V1, and what we take from it into the facts.
///
/// | type | tells |
/// | --- | --- |
/// | `DID_CHANGE_RENEWAL_STATUS` | whether it renews |
/// | `DID_FAIL_TO_RENEW` | billing retry and grace period |
/// | `DID_RENEW`, `DID_RECOVER`, `RENEWAL`, `INTERACTIVE_RENEWAL`, `INITIAL_BUY` | expiry, billing retry over |
/// | `CANCEL`, `REFUND`, `REVOKE` | nothing: what ended, and whose money, is read from the status |
/// | `DID_CHANGE_RENEWAL_PREF` | nothing: it knows no items |
/// | `PRICE_INCREASE_CONSENT` | nothing: consent is only what Apple signs |
/// | `CONSUMPTION_REQUEST` | nothing |
package enum LegacyType: String, CaseIterable, Sendable {
    case cancel = "CANCEL"
    case consumptionRequest = "CONSUMPTION_REQUEST"
    case didChangeRenewalPref = "DID_CHANGE_RENEWAL_PREF"
    case didChangeRenewalStatus = "DID_CHANGE_RENEWAL_STATUS"
    case didFailToRenew = "DID_FAIL_TO_RENEW"
    case didRecover = "DID_RECOVER"
    case didRenew = "DID_RENEW"
    case initialBuy = "INITIAL_BUY"
    case interactiveRenewal = "INTERACTIVE_RENEWAL"
    case priceIncreaseConsent = "PRICE_INCREASE_CONSENT"
    case refund = "REFUND"
    /// It has not been sent since 2021.
    case renewal = "RENEWAL"
    case revoke = "REVOKE"
}
