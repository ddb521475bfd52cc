"""The evidence with the indexes that several checks need, and what the store's journals say of one change."""

import collections

FINAL = {
    "effective", "declined", "cancelled", "lapsed", "invalidated", "rejected", "ineligible", "missed",
    "aborted"}
WAITING = {"scheduled", "pending_consent", "accepted"}
# As far as these go, the App Store has nothing of the change.
DISOWNED = {"awaiting_approval", "queued", "rejected", "ineligible", "missed", "aborted"}
# Faults that leave a 200 true: the last turns away repetitions alone.
TRUE_ANSWERS = (None, "slow", "late", "refuse_repeats")
# A call that the store holds longer than the client waits ends for the client there: 30 s from its own
# beginning, which lies before the arrival at the store.
CLIENT_DEADLINE = 29_000
# A lease lasts 10 s and is renewed every 2.5 s: so long at least is a frozen holder's work left alone.
LEASE_LEFT = 7_000
LEASE = 10_000
RENEWED_EVERY = 2_500
# After an outage, until a replica has a connection again.
RECONNECTED_IN = 1_000
# Pauses of the machine that count where seconds are meant; a busy one makes shorter ones all the time.
LONG_PAUSE = 100
# A 429 reaches every replica in this time; until then calls leave whose instants were reserved.
SILENCE_BEGINS = 1_000
DRAIN_MAX = 10_000
# After a database has lost something, no call leaves for this long: until none can be on its way, and the history is read.
CAUGHT_UP_IN = 90_000
# A person lets calls go on this long after all were refused, at the latest. A longer wait has another cause.
ALIKE_MAX = 60_000
# Where calls wait for the history, somebody reads it: the next process goes on so long after the death of one that read.
READ_AGAIN_IN = 15_000
# Between a call's instant and the store's stamp lie so many turns of processes and threads: timer, sender's
# connection, store's connection, handler; and as a crowd has two ends, one may be late where the other was not.
TURNS = 6
# No call is later than this; pauses that make it late lie so shortly before its stamp, or reach so far beyond it.
LATE_WITHIN = 250
STAMPED_IN = 5
# A request that its sender wrote before it stood still is read by the store in this time.
READ_LATE = 500
# The permits of one reservation lie within this time, and are late together by what its answer took.
LATE_TOGETHER = 500


class Look:
    """The evidence with the indexes that several checks need."""

    def __init__(self, evidence):
        self.calls = evidence["calls"]
        self.events = evidence["events"]
        self.changes = evidence["changes"]
        # In the order in which they were made: ids carry the database's clock, while `prepared_at` is by that of a
        # replica, which may be set back.
        self.requests = sorted(evidence["requests"], key=lambda request: request["id"])
        self.batches = evidence["batches"]
        self.rejects = evidence["rejects"]
        self.dependents = evidence["dependents"]
        self.cancels, self.extensions = evidence["cancels"], evidence["extensions"]
        self.masses, self.attributed = evidence["masses"], evidence["attributed"]
        self.outbox, self.deliveries = evidence["outbox"], evidence["deliveries"]
        self.hooks, self.secret = evidence["hooks"], evidence["secret"]
        self.owners, self.asked = evidence["owners"], evidence["asked"]
        # Notifications that the receiver answered with 200: those the ledger must have heard of.
        self.told = evidence["told"]
        self.speed = evidence["speed"]
        self.inbox = evidence["inbox"]
        self.files = evidence["files"]
        self.limits = evidence["limits"]
        self.end, self.grace = evidence["end"], evidence["grace"]
        self.real_end = evidence["real_end"]
        self.price_calls = [call for call in self.calls if call["endpoint"] == "changePrice"]
        self.by_id = collections.defaultdict(list)
        for call in self.price_calls:
            self.by_id[call["id"]].append(call)
        self.ids_of_change = collections.defaultdict(list)
        for request in self.requests:
            for change in request["change_ids"]:
                self.ids_of_change[change].append(request)
        for change, requests in self.ids_of_change.items():
            self.ids_of_change[change] = self._as_called(requests)
        self.absences = collections.defaultdict(list)
        for absence in evidence["absences"]:
            self.absences[absence["client"]].append(absence)
        self.outages, self.stalls = evidence["outages"], evidence["stalls"]
        self.holds = evidence.get("holds", [])
        self.stops, self.is_real = evidence["stops"], evidence["is_real"]
        # Since when until when the database forgot what happened, and what report.reconciliation says in the end.
        self.losses = evidence.get("losses", [])
        self.refusals = evidence.get("refusals", [0, 0])
        # Since when until when the store refused all alike; None where nobody ended it.
        self.alike = [(since, to or float("inf")) for since, to in evidence.get("alike", [])]
        self.reconciliation = {row["check_name"]: row["problems"] for row in evidence.get("reconciliation", [])}
        # Findings that the machine's own pauses explain, by check.
        self.excused = collections.Counter()
        # Milliseconds, of calls that were late and none too many.
        self.latest = 0
        self.request_by_id = {request["id"]: request for request in self.requests}
        self.change_by_id = {change["id"]: change for change in self.changes}
        self.events_of = collections.defaultdict(list)
        for event in self.events:
            # The summary of a mass extension is about none.
            self.events_of[event.get("subscription")].append(event)
        self.reads_of, self.checks_of = collections.defaultdict(list), collections.defaultdict(list)
        self.calls_at, self.calls_of_id = collections.defaultdict(list), collections.defaultdict(list)
        for call in self.calls:
            self.calls_at[call["endpoint"]].append(call)
            self.calls_of_id[call["id"]].append(call)
            if call["endpoint"] == "status":
                self.checks_of[call["subscription"]].append(call)
            if call["endpoint"] == "status" and call["applied"]:
                self.reads_of[call["subscription"]].append(call)

    def first_applications(self):
        """(call, item) of each change that the store took, once for each id."""
        seen = set()
        # A call that the store held back may have arrived first, and been one too many when it came to be read.
        applied = [call for call in self.price_calls if call["applied"]]
        for call in sorted(applied, key=lambda call: call["applied_at"]):
            if call["id"] not in seen:
                seen.add(call["id"])
                for item in call["items"]:
                    yield call, item

    def is_forgotten(self, instant):
        """Whether the database may have lost what happened then, by the machine's clock."""
        return any(loss["from"] <= instant <= loss["to"] for loss in self.losses)

    def caught_up(self, begin, end):
        """How long calls may be held back between two instants, until what was lost is known again."""
        return sum(max(0, min(loss["to"] + CAUGHT_UP_IN, end) - max(loss["to"], begin)) for loss in self.losses)

    def held_back(self, begin, end):
        """How long calls waited between two instants until the history was read, and it was read."""
        reads = sorted(read["began"] for read in self.calls_at["history"])
        total = 0
        for since, to in self.holds:
            # To read it takes as long as after a loss, at most: who reads and reads, and never goes on, is not excused.
            since, to = max(since, begin), min(to, end, since + CAUGHT_UP_IN)
            last = since
            # The holds are what the product says itself. The App Store's journal shows whether it read meanwhile.
            for read in [*(read for read in reads if since <= read < to), to]:
                total += max(0, min(read - last, READ_AGAIN_IN))
                last = max(last, read)
        return total

    def refused_alike(self, begin, end):
        """How long the store refused all alike between two instants. Calls may wait so long for a probe."""
        return sum(max(0, min(to, since + ALIKE_MAX, end) - max(since, begin)) for since, to in self.alike)

    def stood_still(self, begin, end, least):
        """How long the machine kept processes waiting between two instants, by pauses of `least` or longer."""
        return sum(max(0, min(to, end) - max(since, begin)) for since, to in self.stalls
                   if since < end and to > begin and to - since >= least)

    def was_away(self, begin, end):
        """How long PostgreSQL was away between two instants."""
        return sum(max(0, min(to, end) - max(since, begin)) for since, to in self.outages)

    def absences_of(self, call, until):
        """When the process that called was gone or stood still, between the call's arrival and an instant.

        A request may still be read by the store after its sender's end, or while it stands still.
        """
        return sorted(
            (absence for absence in self.absences[call["client"]]
             if absence["life"] == call["life"] and absence["from"] < until
             and (absence["why"] != "freeze" or call["began"] - READ_LATE <= absence["from"])),
            key=lambda absence: absence["from"])

    def gone_during(self, call, until):
        """The first of these absences that took the call from its sender; None where none did."""
        return next((absence for absence in self.absences_of(call, until) if not is_short(absence)), None)

    def was_heard(self, call, before=float("inf")):
        """Whether the caller can have read the answer by some instant; who stood still for a moment reads it then."""
        if call["ended"] is None or call["ended"] - call["began"] >= CLIENT_DEADLINE:
            return False
        moments = [absence["to"] for absence in self.absences_of(call, call["ended"]) if is_short(absence)]
        read_at = max([call["ended"], *moments])
        return read_at <= before and self.gone_during(call, read_at) is None

    def _as_called(self, requests):
        """Requests that reached the store in the order of their first calls: two replicas read the database's clock
        through pauses of their own. The others keep their places."""
        called = sorted((request for request in requests if request["id"] in self.by_id),
                        key=lambda request: min(call["began"] for call in self.by_id[request["id"]]))
        order = iter(called)
        return [next(order) if request["id"] in self.by_id else request for request in requests]

    def was_applied(self, request_id):
        return any(call["applied"] for call in self.by_id.get(request_id, []))

    def was_applied_in_time(self, request_id):
        return any(call["applied"] and not self.outlived_its_sender(call) for call in self.by_id.get(request_id, []))

    def outlived_its_sender(self, call):
        """Whether the store held a request for longer than a lease, after its sender's end, and applied it then.

        A call may be on its way for as long as a request takes. A fast clock shortens that time to nothing, because it makes
        months of it; so only rounds of the true clock judge what comes so late.
        """
        gone = self.gone_during(call, call["ended"]) if call["ended"] is not None else None
        return (not self.is_real and call["fault"] == "slow" and call["ended"] - call["began"] > LEASE
                and gone is not None and gone["from"] < call["ended"])


def is_short(absence):
    """One that stood still, and whose leases lasted for longer."""
    return (absence["why"] == "freeze" and absence["to"] is not None
            and absence["to"] - absence["from"] < LEASE_LEFT)


def is_definite(call):
    """The client was told that the call had no effect."""
    return call["answer"] is not None and 400 <= call["answer"] < 500


def fate(events, call, item):
    """What became of an applied change, from the store's events up to some instant."""
    told = {"end": None, "at": None, "asked": False, "informed": False, "consented": False, "left": False}
    # A decrease can't be declined: it goes with an item that it is a dependent of.
    is_increase = call["effects"].get(item["sku"], {}).get("needsConsent") is not None
    dropped = "declined" if is_increase else "cancelled"
    for event in events:
        if event["at"] < call["applied_at"]:
            continue
        found = next((entry for entry in event["items"] if entry["sku"] == item["sku"]), None)
        if found and found.get("newPrice") == item["price"]:
            if found.get("increaseStatus") == "PENDING":
                told["asked"] = True
            if found.get("increaseStatus") == "ACCEPTED":
                told["consented" if found.get("needsConsent") else "informed"] = True
        if event["kind"] == "DID_RENEW":
            if found is None:
                told["end"], told["at"] = dropped, event["at"]
                return told
            if "newPrice" not in found and found["price"] == item["price"]:
                told["end"], told["at"] = "effective", event["purchasedAt"]
                return told
        if event["kind"] in ("EXPIRED", "REFUND", "REVOKE"):
            told["end"] = {
                "PRICE_INCREASE": dropped, "BILLING_RETRY": "lapsed",
            }.get(event.get("subtype"), "cancelled")
            told["at"] = event["at"]
            told["left"] = (event["kind"], event.get("subtype")) == ("EXPIRED", "VOLUNTARY")
            return told
    return told


def fates_of(look, call, item):
    """The fates that the ledger may have heard of: the last events may still be on their way to it."""
    events = look.events_of[call["subscription"]]
    # What the receiver took is known, and all that is older than the grace.
    known = [number for number, event in enumerate(events, 1)
             if event["uuid"] in look.told or event["at"] < look.end - look.grace]
    return [fate(events[:count], call, item) for count in range(max(known, default=0), len(events) + 1)]


def change_of(look, call, item):
    """The change that brought it: by the call's id, or where the database lost the call, the one that goes on with it."""
    request = look.request_by_id.get(call["id"])
    if request is None and look.is_forgotten(call["began"]):
        return next((
            change for change in look.changes
            if (change["subscription"], change["sku"], change["price"]) == (
                call["subscription"], item["sku"], item["price"]) and change["state"] not in DISOWNED), None)
    for id in request["change_ids"] if request else []:
        change = look.change_by_id.get(id)
        if change and change["sku"] == item["sku"]:
            return change
    return None
