"""What became of forecasts: computed from the store's events and book alone, and held against `report.forecast_accuracy`."""
import calendar
import collections
import datetime
import json

DAY = 86_400_000
# A renewal that is charged this late is in time.
MOMENTS = 3_600_000
# How late a call may be for a renewal, in days: with consent by period, announced, and a decrease. In South Korea it may be a
# conversion's thirty.
LEADS = {"P1W": 7, "P1M": 27, "P2M": 60, "P3M": 60, "P6M": 60, "P1Y": 60}
# A notification is at most this late. Until then a plan cannot know what it tells.
POST = 11 * DAY
NEVER_HAD = {"rejected", "ineligible", "missed", "aborted"}
SLIPS = ("billing_failure", "late_call", "extension", "other")


class Outcomes:
    """Of each change that a person handed in: whether the store asked, when it charged, and what may have delayed that."""

    def __init__(self, store, database):
        self.store, self.db = store, database
        self.lives = {life["id"]: life for life in self.store["subscriptions"]}
        self.forecasts = {row["change_id"]: row for row in self.db["forecasts"]}
        self.changes = [dict(change, **self.forecasts[change["change_id"]])
                        for change in self.db["changes"] if change["change_id"] in self.forecasts]
        self.events = collections.defaultdict(list)
        for event in self.store["events"]:
            self.events[event.get("subscription")].append(event)
        # When the store took a price, by subscription, item and price, and by the call's id.
        self.taken, self.by_reference = collections.defaultdict(list), {}
        for call in self.store["calls"]:
            if call["endpoint"] == "changePrice" and call["applied"] and not call["repeated"]:
                self.by_reference[call["requestReferenceId"]] = call["at"]
                for item in json.loads(call["body"])["items"]:
                    self.taken[(call["transactionId"], item["SKU"])].append((call["at"], item["price"]))
        self.orders = collections.Counter(
            (change["id"], change["current_sku"] or change["sku"], change["price"]) for change in self.db["changes"])

    def is_clear(self, change):
        """Whether the store's words of this item and price can be about this change alone."""
        return change["reference"] in self.by_reference or self.orders[
            (change["id"], change["current_sku"] or change["sku"], change["price"])] == 1

    def calls(self, change):
        """When the store took a price of this item."""
        return sorted(each for sku in {change["sku"], change["current_sku"] or change["sku"]}
                      for each in self.taken[(change["id"], sku)])

    def called_at(self, change):
        own = self.by_reference.get(change["reference"])
        return own if own is not None else min(
            (at for at, price in self.calls(change) if price == change["price"]), default=None)

    def replaced_at(self, change):
        """When the store took another price of the item after this one, of which alone it speaks from then on."""
        called = self.called_at(change)
        return min((at for at, _ in self.calls(change) if at > called), default=float("inf"))

    def asked(self, change):
        """Whether the store asked for consent, told of the increase, or neither; None while it did nothing."""
        called = self.called_at(change)
        if called is None:
            return None
        if change["direction"] == "decrease":
            return "none"
        skus = {change["sku"], change["current_sku"] or change["sku"]}
        told, replaced = None, self.replaced_at(change)
        for event in self.events[change["id"]]:
            for item in event.get("items") or ():
                if not called <= event["at"] <= replaced or item["sku"] not in skus or item.get("newPrice") != change["price"]:
                    continue
                # The customer chose another item for the renewal, and the store speaks of that one.
                if item.get("replacedBy"):
                    continue
                if item.get("increaseStatus") in ("PENDING", "ACCEPTED"):
                    told = "required" if item["needsConsent"] else "not_required"
        return told

    def charged_at(self, change):
        called = self.called_at(change)
        skus = {change["sku"], change["current_sku"]}
        return min((charge["from"] for charge in self.lives[change["id"]]["charges"]
                    if called is not None and charge["sku"] in skus and charge["price"] == change["price"]
                    and charge["currency"] == change["currency"] and charge["from"] >= called), default=None)

    def is_siblings_doing(self, change, end):
        """Whether an increase of another item, unknown to this forecast, takes effect before it and counts for its call."""
        since = months_before(change["sent_at"] if change["sent_at"] is not None else end, 12)
        for other in self.changes:
            if other["id"] != change["id"] or other is change or other["direction"] != "increase":
                continue
            at = other["due_at"] if other["state"] in ("scheduled", "pending_consent", "accepted") else self.charged_at(other)
            if at is not None and other["state"] in ("scheduled", "pending_consent", "accepted", "effective") \
                    and since <= at < end:
                return True
        return False

    def causes(self, change, until):
        """Which of the three named causes there were: any may have delayed it."""
        called, begun = self.called_at(change), change["submitted_at"]
        found = set()
        for event in self.events[change["id"]]:
            if begun - POST <= event["at"] <= until:
                if event["kind"] == "DID_FAIL_TO_RENEW":
                    found.add("billing_failure")
                if event["kind"] in ("RENEWAL_EXTENDED", "RENEWAL_EXTENSION"):
                    found.add("extension")
        # A renewal that was extended may have come within reach, and gone.
        before = [event["expiresAt"] for event in self.events[change["id"]]
                  if event.get("expiresAt") and called is not None and event["at"] <= called]
        lead = self.lead(change) * DAY
        if (called if called is not None else until) > change["at"] - lead \
                or any(begun <= expiry - lead < called for expiry in before):
            found.add("late_call")
        return found

    @staticmethod
    def lead(change):
        if change["consent"] == "none":
            return 1
        if change["consent"] == "not_required":
            # The fourth renewal of a weekly plan, counted from the first that is a day away.
            return 22 if change["period"] == "P1W" else 30 if change["storefront"] == "KOR" else 27
        return max(LEADS[change["period"]], 30 if change["storefront"] == "KOR" else 0)


def check(store, database):
    """Each fault with its name."""
    outcomes, faults = Outcomes(store, database), []
    expected = collections.defaultdict(collections.Counter)
    unclear = set()
    for change in outcomes.changes:
        asked, charged = outcomes.asked(change), outcomes.charged_at(change)
        if not outcomes.is_clear(change):
            unclear.add(change["batch_id"])
        charged = charged if change["state"] == "effective" else None
        end = charged if charged is not None else change["due_at"]
        is_late = end > change["at"] + MOMENTS
        slip = change["slip"] if end > change["at"] else None
        about = f"{change['id']} {change['sku']} {change['state']}"
        # What the store never had is due at no renewal.
        if is_late and slip is None and change["state"] not in NEVER_HAD:
            faults.append(("slip-unnamed", f"{about}: {end}, forecast {change['at']}"))
        if slip is not None and not is_late:
            faults.append(("slip-invented", about))
        if slip in SLIPS[:3] and slip not in outcomes.causes(change, end):
            faults.append(("slip-without-cause", f"{about}: {slip}, seen {sorted(outcomes.causes(change, end))}"))
        found = counts(change, charged, slip)
        found["missed_by_sibling"] = int(
            outcome(change["consent"], asked) == "missed" and outcomes.is_siblings_doing(change, end))
        expected[key(change, asked)].update(found)
    faults += compare(database["accuracy"], expected, unclear)
    return faults


def key(change, asked):
    consent = change["consent"]
    because = None
    if "increase_within_12_months" in change["reasons"]:
        told = change["because"] or ""
        because = "sibling" if told.startswith("line ") or told.count("-") == 4 else "earlier_increase"
    return (change["batch_id"], change["direction"], consent, change["source"], asked, tuple(change["reasons"]),
            tuple(change["not_known"]) if consent == "not_known" else (), because)


def months_before(instant, count):
    at = datetime.datetime.fromtimestamp(instant / 1000, datetime.UTC)
    month = at.year * 12 + at.month - 1 - count
    year, month = month // 12, month % 12 + 1
    day = min(at.day, calendar.monthrange(year, month)[1])
    return instant - round((at - at.replace(year=year, month=month, day=day)).total_seconds() * 1000)


def counts(change, charged, slip):
    found = {"changes": 1, "effective": int(charged is not None),
             "effective_as_forecast": int(charged == change["at"]),
             "effective_earlier": int(charged is not None and charged < change["at"]),
             "effective_later": int(charged is not None and charged > change["at"]),
             "renewals_moved": int((change["planned_at"] if change["planned_at"] is not None else change["due_at"])
                                   > change["at"]),
             "slipped": int(slip is not None)}
    found |= {f"slipped_by_{name}": int(slip == name) for name in SLIPS}
    return found


def outcome(consent, asked):
    if asked is None:
        return "not_known"
    if consent == "not_known":
        return "was_not_known"
    if consent == asked:
        return "as_forecast"
    return "missed" if asked == "required" else "false_alarm"


def compare(rows, expected, unclear):
    faults, seen = [], set()
    for row in rows:
        name = (row["batch_id"], row["direction"], row["forecast_consent"], row["forecast_threshold_source"],
                row["came_consent"], tuple(row["forecast_reasons"]), tuple(row["forecast_not_known"]),
                row["forecast_because"])
        seen.add(name)
        if row["batch_id"] in unclear:
            continue
        wanted = expected.get(name)
        if wanted is None:
            faults.append(("forecast-row-invented", f"{name}: {row['changes']} changes"))
            continue
        for column, count in wanted.items():
            if row[column] != count:
                faults.append(("forecast-miscounted", f"{name} {column}: {row[column]}, not {count}"))
        word = outcome(row["forecast_consent"], row["came_consent"])
        if row["consent_outcome"] != word:
            faults.append(("forecast-misjudged", f"{name}: {row['consent_outcome']}, not {word}"))
        if row["is_as_forecast"] != {"as_forecast": True, "missed": False, "false_alarm": False}.get(word):
            faults.append(("forecast-misjudged", f"{name}: is_as_forecast {row['is_as_forecast']}"))
    for name in expected.keys() - seen:
        if name[0] not in unclear:
            faults.append(("forecast-row-missing", f"{name}: {expected[name]['changes']} changes"))
    return faults
