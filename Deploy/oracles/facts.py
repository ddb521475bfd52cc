"""What Apple said: statements as a test makes them, their signed payloads, and what is known of a subscription by those
that were delivered."""

from dataclasses import dataclass, field, replace
import uuid

from dates import DAY, add_months, text_of

APP = {"bundleId": "com.example.stream", "environment": "Production"}
APP_APPLE_ID = 1234567890
PRODUCT = "com.example.stream.subscription"


@dataclass(frozen=True)
class Offer:
    price: int
    period: str
    count: int


@dataclass(frozen=True)
class Item:
    """An item of a transaction, or of renewal info; `increase`: what Apple shows of one, (status, price)."""
    sku: str
    price: int
    offer: Offer = None
    increase: tuple = None

    @property
    def charged(self):
        return self.offer.price if self.offer else self.price


@dataclass(frozen=True)
class Period:
    """A transaction: what was charged for one period."""
    purchased: int
    expires: int
    items: tuple
    currency: str
    storefront: str
    # How many were bought at these prices, each of which is that of one.
    seats: int = 1
    # Its length, where it is another than that of the running one.
    plan: str = None


@dataclass(frozen=True)
class Earlier:
    """An increase of the past: when it took effect, at the earliest, and until when it counts."""
    at: int
    until: int


@dataclass(frozen=True)
class Statement:
    type: str
    subtype: str
    signed: int
    status: int
    period: Period
    renewal: tuple
    auto_renews: bool = True


@dataclass
class Subscription:
    id: str
    customer: str
    plan: str
    bought: int
    # When the running subscription began: None where Apple leaves it out.
    began: int
    statements: list
    family: bool = False
    # Increases that a person states: (sku, instant, recorded at).
    imported: list = field(default_factory=list)
    environment: str = "Production"

    @property
    def newest(self):
        return max(self.statements, key=lambda each: each.signed)

    def item(self, sku):
        """The item of the running period, or None."""
        return next((each for each in self.newest.period.items if each.sku == sku), None)

    def renewing(self, sku):
        return next((each for each in self.newest.renewal if each.sku == sku), None)

    def periods(self):
        """What was charged, as far as it was told, in order of time."""
        found = {each.period.purchased: each.period for each in self.statements}
        return [found[at] for at in sorted(found)]

    def known_since(self):
        """Since when no increase of the running subscription can have been missed. What was before a lapse says nothing
        of it. Nor does what was before a pause in the telling, unless each price after it has one before it."""
        told = [each for each in self.periods() if self.began is None or each.purchased >= self.began]
        since = told[0].purchased
        for before, after in zip(told, told[1:]):
            if after.purchased > before.expires and not self._compares(before, after):
                since = after.purchased
        return since

    def _compares(self, before, after):
        """Whether a rise between the two would be seen in their prices."""
        of = {each.sku for each in before.items}
        return self._are_alike(before, after) and all(each.sku in of for each in after.items)

    def _are_alike(self, before, after):
        """Prices of two storefronts, currencies or lengths are not higher or lower than one another."""
        return (before.currency, before.storefront, before.plan or self.plan) == (
            after.currency, after.storefront, after.plan or self.plan)

    def known_from_start(self):
        """The running subscription is known from its first period on: from the very first purchase, where Apple leaves
        the start of the running one out."""
        return self.known_since() == (self.bought if self.began is None else self.began)

    def increases(self, known_at):
        """Earlier increases of any item: in the statements, and imported until `known_at`."""
        told = []
        periods = self.periods()
        for before, after in zip(periods, periods[1:]):
            if not self._are_alike(before, after):
                continue
            prices = {each.sku: each.price for each in before.items}
            told += [(each.sku, after.purchased) for each in after.items
                     if each.price > prices.get(each.sku, each.price)]
        found = [Earlier(at, twelve_months_after(at)) for _, at in told]
        for sku, day, recorded in self.imported:
            # Somewhere on earth the day lasts until two days after it began in UTC.
            over = day + 2 * DAY
            if recorded is None or recorded > known_at:
                continue
            # An imported increase that a statement tells of, too, adds nothing.
            if not any(sku == of and day <= at < over for of, at in told):
                found.append(Earlier(day, twelve_months_after(day) + 2 * DAY))
        return found

    def story(self):
        """What decides about it, for who reads a difference."""
        newest = self.newest
        return (f"{self.plan} {newest.period.storefront} bought {text_of(self.bought)} began "
                f"{self.began and text_of(self.began)} known since {text_of(self.known_since())} renews "
                f"{text_of(newest.period.expires)} told {text_of(newest.signed)} status {newest.status} "
                f"auto-renews {newest.auto_renews}\n    runs {newest.period.items}\n    renews {newest.renewal}\n"
                f"    increases {[text_of(each.at) for each in self.increases(10**15)]} "
                f"imported {[text_of(at) for _, at, _ in self.imported]}")

    def payload(self, statement, signer):
        """The signed notification of one statement."""
        period = statement.period
        plan = period.plan or self.plan
        common = {"originalTransactionId": self.id, "environment": self.environment,
                  "productId": PRODUCT, "signedDate": statement.signed,
                  "appTransactionId": self.customer, "appAccountToken": account_of(self.customer)}
        first = period.purchased == self.bought
        transaction = {
            **common, "bundleId": APP["bundleId"], "currency": period.currency, "storefront": period.storefront,
            "transactionId": self.id if first else str(int(self.id) + (period.purchased // 60000) % 9973 + 1),
            "purchaseDate": period.purchased, "originalPurchaseDate": self.bought, "expiresDate": period.expires,
            "price": sum(each.charged for each in period.items), "quantity": period.seats,
            "inAppOwnershipType": "FAMILY_SHARED" if self.family else "PURCHASED",
            "type": "Auto-Renewable Subscription", "subscriptionGroupIdentifier": "21000001",
            "transactionReason": "PURCHASE" if first else "RENEWAL",
            "advancedCommerceInfo": {
                "items": [wire(each) for each in period.items], "period": plan, "taxCode": "C003-00-1",
                "requestReferenceId": name_based(self.id), "taxRate": "0", "estimatedTax": 0,
                "taxExclusivePrice": sum(each.charged for each in period.items)}}
        renewal = {
            **common, "autoRenewProductId": PRODUCT, "autoRenewStatus": int(statement.auto_renews),
            "isInBillingRetryPeriod": statement.status == 3, "renewalDate": period.expires,
            "currency": period.currency, "renewalPrice": sum(each.charged for each in statement.renewal),
            "advancedCommerceInfo": {
                "items": [wire(each) for each in statement.renewal], "period": plan, "taxCode": "C003-00-1",
                "requestReferenceId": name_based(self.id),
                "consistencyToken": f"1.{self.id}.{name_based(self.id, statement.signed)}"}}
        if self.began is not None:
            renewal["recentSubscriptionStartDate"] = self.began
        data = {"bundleId": APP["bundleId"], "bundleVersion": "1.0", "environment": self.environment,
                "status": statement.status, "signedTransactionInfo": signer.sign(transaction),
                "signedRenewalInfo": signer.sign(renewal)}
        if self.environment == "Production":
            data["appAppleId"] = APP_APPLE_ID
        notification = {
            "notificationType": statement.type, "version": "2.0", "signedDate": statement.signed, "data": data,
            "notificationUUID": name_based(self.id, statement.signed, statement.type, statement.subtype)}
        if statement.subtype:
            notification["subtype"] = statement.subtype
        return signer.sign(notification)


def wire(item):
    found = {"SKU": item.sku, "price": item.price, "displayName": item.sku[:30], "description": item.sku[:45]}
    if item.offer:
        found["offer"] = {"price": item.offer.price, "period": item.offer.period,
                          "periodCount": item.offer.count, "reason": "ACQUISITION"}
    if item.increase:
        found["priceIncreaseInfo"] = {"status": item.increase[0], "price": item.increase[1]}
    return found


def name_based(*parts):
    return str(uuid.uuid5(uuid.NAMESPACE_OID, ".".join(map(str, parts))))


def account_of(customer):
    return name_based("account", customer)


def twelve_months_after(instant):
    return add_months(instant, 12)
