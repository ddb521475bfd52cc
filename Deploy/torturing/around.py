"""What the auditor proves around price changes: cancelled subscriptions, events for others, extensions, takeover.

As in audit.py: each check returns how many things it looked at and what is wrong.
"""

import collections
import hashlib
import hmac
import json

from look import LEASE, LONG_PAUSE, TRUE_ANSWERS, change_of, fates_of, is_definite

# After this long another process must have taken over what a dead one held.
TAKEOVER_MAX = 30_000
# A lease that was taken and not used, because its new holder died too.
SIGNATURE_AGE_MAX = 300
SETTLED_EXTENSIONS = {"extended", "refused", "ineligible"}


# Dependents on another subscription of the customer.

def places(look, change):
    """(subscription, SKU, as named) of the dependents that the change's own subscription never carried."""
    own = look.owners[change["subscription"]]
    for name in change["dependents"]:
        target, _, sku = name.rpartition("/")
        if target:
            yield target, sku, name
            continue
        if name in own["skus"]:
            continue
        for id, other in look.owners.items():
            if id != change["subscription"] and other["customer"] == own["customer"] and name in other["skus"]:
                yield id, name, name


def renewing(look, subscription, at):
    """What the store would have charged at the next renewal, as it stood at an instant; None when nothing."""
    events = [event for event in look.events_of[subscription] if event["at"] <= at]
    if not events:
        return set(look.owners[subscription]["skus"])
    last = events[-1]
    if last["status"] in (2, 5) or not last["autoRenews"]:
        return None
    return {item["sku"] for item in last["items"] if not item["isLeaving"]}


def falls(look):
    """(change, when, whether the ledger must know) of each item that its subscriber lost by not consenting.

    Who was asked and left before an answer did not consent either.
    """
    for call, item in look.first_applications():
        change = change_of(look, call, item)
        if change is None:
            continue
        fates = fates_of(look, call, item)
        if is_refusal(fates[-1]):
            yield change, fates[-1]["at"], is_refusal(fates[0])


def is_refusal(fate):
    return fate["end"] == "declined" or fate["left"] and fate["asked"] and not fate["consented"]


def wanted_on(look):
    """Of each subscription: (SKU, since when it is to fall, change) of what hangs on a declined parent."""
    wanted = collections.defaultdict(list)
    for change, at, _ in falls(look):
        for target, sku, _ in places(look, change):
            wanted[target].append((sku, at, change))
    return wanted


def cancelled_once(look):
    """Cancel a Subscription takes effect once, for the same customer, after the parent's fall, where nothing else lives."""
    wrong, counted = [], 0
    wanted = wanted_on(look)
    known = {cancel["id"]: cancel for cancel in look.cancels}
    by_target = collections.defaultdict(list)
    for call in look.calls:
        if call["endpoint"] == "cancel":
            by_target[call["subscription"]].append(call)
    for target, calls in by_target.items():
        counted += 1
        first = {}
        for call in calls:
            if call["id"] not in known and look.is_forgotten(call["began"]):
                look.excused["cancelled_once in a database that was lost"] += 1
            elif call["id"] not in known:
                wrong.append(f"{target}: cancelled as {call['id']}, which is not stored")
            elif known[call["id"]]["subscription"] != target:
                wrong.append(f"{target}: {call['id']} is stored for another subscription")
            if call["applied"] and (
                    call["id"] not in first or call["applied_at"] < first[call["id"]]["applied_at"]):
                first[call["id"]] = call
        for id in {call["id"] for call in calls} & set(known):
            sent = [call for call in calls if call["id"] == id and not look.is_forgotten(call["began"])]
            if len(sent) > known[id]["attempts"]:
                wrong.append(f"{id}: {len(sent)} calls, {known[id]['attempts']} attempts")
        if len(first) > 1:
            wrong.append(f"{target}: cancelled {len(first)} times: {', '.join(sorted(first))}")
        wrong += [f"{target}: {problem}" for problem in unproved_cancels(look, target, calls)]
        for call in calls:
            earlier = [other for id, other in first.items()
                       if id != call["id"] and other["began"] < call["began"]]
            if earlier:
                wrong.append(f"{target}: {call['id']} follows {earlier[0]['id']}, which was applied")
        # What it was asked for is judged where it took effect, or would have.
        for call in first.values():
            at = call["applied_at"]
            falling = [(sku, change) for sku, since, change in wanted[target] if since <= at]
            if not falling:
                wrong.append(f"{target}: cancelled at {at} as {call['id']}, and no parent had fallen")
                continue
            # As it stood before the call's own event.
            alive = renewing(look, target, at - 1) or set()
            company = alive - {sku for sku, _ in falling}
            if company:
                wrong.append(f"{target}: cancelled at {at}, and {', '.join(sorted(company))} lived on it")
            for _, change in falling:
                if look.owners[change["subscription"]]["customer"] != look.owners[target]["customer"]:
                    wrong.append(f"{target}: cancelled for {change['id']}, another customer's")
    return counted, wrong


def unproved_cancels(look, target, calls):
    """A new id only after somebody knew that the earlier one had no effect."""
    for before, after in zip(calls, calls[1:]):
        if before["id"] == after["id"]:
            continue
        lost = [call for call in calls if call["id"] == before["id"] and call["began"] < after["began"]
                and not (is_definite(call) and look.was_heard(call, after["began"]))]
        if not lost:
            continue
        since = max(call["began"] for call in lost)
        if not any(since <= read["began"] <= after["began"] and read["fault"] in TRUE_ANSWERS
                   and look.was_heard(read, after["began"]) for read in look.reads_of[target]):
            yield f"{after['id']} follows {before['id']}, whose call {lost[-1]['call']} had no answer, and nobody looked"


def elsewhere_settled(look):
    """A dependent on another subscription ends as the store's own record says that it must."""
    wrong, counted = [], 0
    known = {(entry["change_id"], entry["sku"]): entry for entry in look.dependents if entry["is_cross_subscription"]}
    wanted = wanted_on(look)
    expected = set()
    for change, at, is_settled in falls(look):
        for target, sku, name in places(look, change):
            counted += 1
            expected.add((change["id"], name))
            entry = known.get((change["id"], name))
            if entry is None:
                if is_settled:
                    wrong.append(f"{change['id']}: {name} on {target} has no cancellation, its parent fell at {at}")
                continue
            problem = misjudged(look, entry, target, sku, at, wanted[target])
            if problem:
                wrong.append(f"{change['id']}: {name} on {target} is {entry['state']}, {problem}")
    for (change, name), entry in known.items():
        if (change, name) not in expected and entry["state"] != "not_needed":
            wrong.append(f"{change}: {name} is {entry['state']}, and the store says that its parent did not fall")
    return counted, wrong


def misjudged(look, entry, target, sku, since, wanted):
    """What the store's record says against a dependent's state; None where both agree."""
    alive = renewing(look, target, look.end)
    is_gone = alive is None or sku not in alive
    falling = {other for other, _, _ in wanted}
    if entry["state"] == "confirmed":
        return None if is_gone else "and the store will charge it"
    if entry["state"] == "discrepancy":
        # Refused without a fault of ours: a person has to end it.
        if any(call["fault"] == "refuse" and call["subscription"] == target
               for call in look.calls_at["cancel"]):
            return None
        instants = [since, *(event["at"] for event in look.events_of[target] if event["at"] > since)]
        for at in instants:
            then = renewing(look, target, at)
            if then is not None and sku in then and then - falling:
                return None
        return f"though nothing else lived there since {since}: {entry['detail']}"
    if entry["state"] == "not_needed":
        return "though its parent fell"
    if since > look.end - look.grace:
        return None
    return f"still, {look.end - since} ms after its parent fell: {entry['detail']}"


# Events for others.

def events_whole(look):
    """Every step of a dependent's cancellation is an event: first that it is asked for, at last as it stands."""
    wrong = []
    told = collections.defaultdict(list)
    ids = collections.Counter(event["id"] for event in look.outbox)
    wrong += [f"{id}: an event's id {count} times" for id, count in ids.items() if count > 1]
    for event in look.outbox:
        payload = event["payload"]
        if payload["original_transaction_id"] != event["subscription"]:
            wrong.append(f"{event['id']}: under {event['subscription']}, about {payload['original_transaction_id']}")
        if event["type"] != f"dependent_cancellation.{payload['state']}":
            wrong.append(f"{event['id']}: {event['type']}, and its payload says {payload['state']}")
        told[payload["change_id"], payload["dependent_sku"]].append(payload)
    for entry in look.dependents:
        steps = told.pop((entry["change_id"], entry["sku"].rpartition("/")[2]), [])
        if not steps:
            wrong.append(f"{entry['change_id']} {entry['sku']}: {entry['state']}, and no event tells of it")
            continue
        last = steps[-1]
        if (last["state"], last["cancel_reference_id"]) != (entry["state"], entry["cancel_id"]):
            wrong.append(f"{entry['change_id']} {entry['sku']}: {entry['state']} with {entry['cancel_id']}, its last"
                         f" event says {last['state']} with {last['cancel_reference_id']}")
        wrong += [f"{entry['change_id']} {entry['sku']}: {problem}" for problem in untold(look, entry, steps)]
        for before, after in zip(steps, steps[1:]):
            # A late statement may correct the proof and its dates: then another one is named.
            if (before["state"], before["settled_by_evidence"], before["cancel_reference_id"]) == (
                    after["state"], after["settled_by_evidence"], after["cancel_reference_id"]):
                wrong.append(f"{entry['change_id']} {entry['sku']}: told twice that it is {after['state']}")
    wrong += [f"{change} {sku}: an event of no cancellation" for change, sku in told]
    return len(look.outbox), wrong


def untold(look, entry, steps):
    """The steps of a cancellation that must have been, and that no event tells of."""
    told = [step["state"] for step in steps]
    # One of the parent's own subscription may be asked for and proved by one statement, whatever a later one says.
    is_at_once = told[0] == entry["state"] or is_by_one_statement(steps[0])
    if told[0] != "requested" and (entry["is_cross_subscription"] or not is_at_once):
        yield f"its first event says {told[0]}"
    # In a database that was lost the row of a call may be another than the one that made it.
    calls = [call for call in look.calls_of_id[entry["cancel_id"]] if not look.is_forgotten(call["began"])]
    if entry["cancel_id"] is not None and calls and "cancel_sent" not in told:
        yield f"called as {entry['cancel_id']}, and no event tells of it"


def is_by_one_statement(step):
    """Whether the statement that made a cancellation needed proves it, too."""
    return step["state"] == "confirmed" and step["settled_by_evidence"] is not None and (
        step["settled_by_evidence"] == step["requested_by_evidence"])


def webhooks_delivered(look):
    """Every event of the outbox was received and answered with a 2xx, and is kept as delivered."""
    wrong = []
    taken = {hook["id"] for hook in look.hooks if hook["answer"] is not None and 200 <= hook["answer"] < 300}
    states = {(entry["subscription"], entry["position"]): entry for entry in look.deliveries}
    for event in look.outbox:
        delivery = states.pop((event["subscription"], event["position"]), None)
        if event["id"] not in taken:
            wrong.append(f"{event['id']} of {event['subscription']}: never taken by its receiver, written at"
                         f" {event['written_at']}, {delivery}")
        elif delivery is None or delivery["state"] != "delivered":
            wrong.append(f"{event['id']} of {event['subscription']}: taken, and kept as {delivery}")
    wrong += [f"{key}: a delivery of no event" for key in states]
    return len(look.outbox), wrong


def webhooks_true(look):
    """Nothing is received but the events of the outbox, word for word."""
    wrong = []
    known = {event["id"]: event for event in look.outbox}
    for hook in look.hooks:
        event = known.get(hook["id"])
        if event is None and look.is_forgotten(hook["at"]):
            # It is told once more, under another id.
            look.excused["webhooks_true in a database that was lost"] += 1
            continue
        if event is None:
            wrong.append(f"{hook['id']}: received at {hook['at']}, in no outbox")
            continue
        body = json.loads(hook["body"])
        said = (body["id"], body["type"], body["aggregateid"], body["position"], body["payload"])
        if said != (event["id"], event["type"], event["subscription"], event["position"], event["payload"]):
            wrong.append(f"{hook['id']}: received at {hook['at']} with other words than the outbox has")
        if hook["type"] != event["type"]:
            wrong.append(f"{hook['id']}: its header says {hook['type']}, the outbox {event['type']}")
    return len(look.hooks), wrong


def webhooks_signed(look):
    """Every webhook bears a fresh signature that the shared secret gives."""
    wrong = []
    for hook in look.hooks:
        parts = dict(part.partition("=")[::2] for part in (hook["signature"] or "").split(","))
        second = parts.get("t", "")
        mac = hmac.new(
            look.secret.encode(), f"{second}.".encode() + hook["body"].encode(), hashlib.sha256).hexdigest()
        if not second.isdigit() or not hmac.compare_digest(mac, parts.get("v1", "")):
            wrong.append(f"{hook['id']}: received at {hook['at']} with the signature {hook['signature']}")
        elif abs(int(second) - hook["at"] / 1000) > SIGNATURE_AGE_MAX:
            wrong.append(f"{hook['id']}: signed at {second}, received at {hook['at']}")
    return len(look.hooks), wrong


def webhooks_in_order(look):
    """No event of a subscription is received before the one before it was taken."""
    wrong, counted = [], 0
    received = collections.defaultdict(list)
    for hook in look.hooks:
        received[hook["id"]].append(hook)
    before = None
    for event in sorted(look.outbox, key=lambda event: (event["subscription"], event["position"])):
        if before is not None and before["subscription"] == event["subscription"] and received[event["id"]]:
            counted += 1
            taken = [hook["ended"] for hook in received[before["id"]]
                     if hook["answer"] is not None and 200 <= hook["answer"] < 300]
            first = min(hook["at"] for hook in received[event["id"]])
            if not taken or min(taken) > first:
                wrong.append(f"{event['subscription']}: {event['id']} received at {first}, before {before['id']},"
                             f" taken at {min(taken, default=None)}")
        before = event
    return counted, wrong


# Extensions.

def moved_by(look):
    """(request, subscription) of what each applied call of Extend a Subscription Renewal Date asked for, with the calls."""
    found = collections.defaultdict(list)
    for call in look.calls:
        if call["endpoint"] == "extend" and call["applied"]:
            found[call["body"]["requestIdentifier"].lower(), call["subscription"]].append(call)
    return found


def extended_once(look):
    """The store moved a renewal once for each request that it took, no oftener, and by as many days as were asked."""
    wrong = []
    asked = {(entry["id"], entry["subscription"]): entry for entry in look.extensions}
    moves = collections.Counter()
    for (id, subscription), calls in moved_by(look).items():
        moves[subscription] += 1
        entry = asked.get((id, subscription))
        if entry is None:
            wrong.append(f"{subscription}: extended as {id}, which is not stored")
            continue
        for call in calls:
            if (call["body"]["extendByDays"], call["body"]["extendReasonCode"]) != (entry["days"], entry["reason"]):
                wrong.append(f"{subscription}: call {call['call']} says other than {id} in the ledger")
        if entry["state"] != "extended":
            wrong.append(f"{subscription}: extended as {id}, the ledger says {entry['state']} ({entry['detail']})")
    masses = {call["body"]["requestIdentifier"].lower() for call in look.calls
              if call["endpoint"] == "extendAll" and call["applied"]}
    told = collections.Counter(
        event["subscription"] for event in look.events if event["kind"] == "RENEWAL_EXTENDED")
    for subscription, count in told.items():
        # Each mass extension reaches a subscription once at most.
        if not moves[subscription] <= count <= moves[subscription] + len(masses):
            wrong.append(f"{subscription}: moved {count} times, {moves[subscription]} requests of its own and"
                         f" {len(masses)} of all")
    for subscription, count in moves.items():
        if told[subscription] < count:
            wrong.append(f"{subscription}: {count} requests answered, moved {told[subscription]} times")
    sent = collections.Counter(
        call["subscription"] for call in look.calls
        if call["endpoint"] == "extend" and call["answer"] != 401 and not look.is_forgotten(call["began"]))
    attempts = collections.Counter()
    for entry in look.extensions:
        attempts[entry["subscription"]] += entry["attempts"]
    for subscription, count in sent.items():
        if count > attempts[subscription]:
            wrong.append(f"{subscription}: {count} calls to extend it, {attempts[subscription]} attempts")
    return len(look.extensions), wrong


def extensions_settled(look):
    """Every extension that was asked for is extended, as the store says, or refused with a reason and not applied."""
    wrong = []
    applied = set(moved_by(look))
    stored = {entry["id"]: entry for entry in look.extensions}
    for wish in look.asked["singles"]:
        entry = stored.get(wish["id"])
        if wish["is_taken"] != (entry is not None):
            wrong.append(f"{wish['id']}: asked for {wish['subscription']}, exit code {wish['code']}, stored {entry}")
        elif entry and (entry["subscription"], entry["days"]) != (wish["subscription"], wish["days"]):
            wrong.append(f"{wish['id']}: stored with other words than asked")
    for entry in look.extensions:
        is_applied = (entry["id"], entry["subscription"]) in applied
        if entry["state"] not in SETTLED_EXTENSIONS:
            wrong.append(f"{entry['subscription']}: {entry['id']} is {entry['state']} at the end: {entry['detail']}")
        elif entry["state"] == "extended" and not is_applied:
            wrong.append(f"{entry['subscription']}: {entry['id']} is extended, and the store applied no such call")
        elif entry["state"] != "extended" and not entry["code"]:
            wrong.append(f"{entry['subscription']}: {entry['id']} is {entry['state']} without a reason")
    return len(look.extensions) + len(look.asked["singles"]), wrong


def mass_once(look):
    """Extending all is called only as approved by a second person, under one identifier, and what it did is counted
    alike by the store, by its summary, by its status and by the ledger, one by one."""
    wrong = []
    stored = {entry["id"]: entry for entry in look.masses}
    for id in look.asked["masses"]:
        if id not in stored:
            wrong.append(f"{id}: asked for, not stored")
    called = collections.Counter()
    for call in look.calls:
        if call["endpoint"] != "extendAll" or not call["applied"]:
            continue
        id = call["body"]["requestIdentifier"].lower()
        called[id] += not look.is_forgotten(call["began"])
        entry = stored.get(id)
        if entry is None or entry["decided_by"] in (None, entry["submitted_by"]):
            wrong.append(f"{id}: called at {call['at']}, and nobody approved it")
        elif (call["body"]["extendByDays"], call["body"].get("storefrontCountryCodes")) != (
                entry["days"], entry["storefronts"]):
            wrong.append(f"{id}: call {call['call']} says other than what was approved")
        elif called[id] > entry["attempts"]:
            wrong.append(f"{id}: {called[id]} calls, {entry['attempts']} attempts")
    summaries = {event["summary"]["requestIdentifier"].lower(): event["summary"]
                 for event in look.events if event.get("summary")}
    told = collections.Counter((entry["id"], entry["outcome"]) for entry in look.attributed if not entry["is_single"])
    # A later notification tells nothing of an extension that an earlier one told of.
    for id, entry in stored.items():
        summary = summaries.get(id)
        if called[id] and entry["state"] != "complete":
            wrong.append(f"{id}: called, and {entry['state']} at the end")
        if summary is None:
            if called[id]:
                wrong.append(f"{id}: the store made no summary")
            continue
        counts = (summary["succeeded"], summary["failed"])
        if (entry["summary_succeeded"], entry["summary_failed"]) != counts:
            wrong.append(f"{id}: the store's summary says {counts}, the ledger"
                         f" {entry['summary_succeeded']}, {entry['summary_failed']}")
        if entry["status_succeeded"] is not None and (
                entry["status_succeeded"], entry["status_failed"]) != counts:
            wrong.append(f"{id}: the store's summary says {counts}, its status {entry['status_succeeded']},"
                         f" {entry['status_failed']}")
        if (told[id, "extended"] + told[id, "seen"], told[id, "failed"]) != counts:
            wrong.append(f"{id}: the store's summary says {counts}, one by one the ledger has"
                         f" {told[id, 'extended']}+{told[id, 'seen']}, {told[id, 'failed']}")
    wrong += [f"{id}: called, and not stored" for id in called if id not in stored]
    return len(look.masses), wrong


# Takeover.

def business_as_real(look, call, instant):
    """The machine's instant of one of the business clock, by a call that was stamped with both."""
    return call["began"] + (instant - call["at"]) / look.speed


def siblings(look, call):
    """The calls that go on with what this one left: of its id, or where the journal has none, of its subscription."""
    if call["endpoint"] == "extend":
        return [other for other in look.calls_at["extend"] if other["subscription"] == call["subscription"]]
    if call["endpoint"] == "extendAll":
        return look.calls_at["extendAll"] + look.calls_at["extendStatus"]
    return look.calls_of_id[call["id"]]


def records(look, call):
    """The ledger's rows about it."""
    if call["endpoint"] == "extend":
        return [entry for entry in look.extensions if entry["subscription"] == call["subscription"]]
    if call["endpoint"] == "extendAll":
        return look.masses
    rows = look.cancels if call["endpoint"] == "cancel" else look.requests
    return [entry for entry in rows if entry["id"] == call["id"]]


def learned(look, call, settled):
    """When the ledger can have heard the statement that settled a request: told, or read in the history.

    A statement that settles bears its own date, which may lie before the very call, and before it was told.
    """
    if call["endpoint"] == "extendAll":
        events = [event for event in look.events_of[None] if event["summary"]["requestIdentifier"].lower() == call["id"]]
    else:
        events = look.events_of[call["subscription"]]
    told = [business_as_real(look, call, look.told[event["uuid"]]) for event in events
            if event["at"] >= settled and event["uuid"] in look.told]
    return told + [read["began"] for read in look.calls_at["history"]
                   if read["answer"] == 200 and read["fault"] is None
                   and read["began"] > business_as_real(look, call, settled)]


def is_dated_by_its_statement(call, settled):
    """The ledger may have heard it later than that: what ends a mass extension is its summary."""
    return settled < call["at"] or call["endpoint"] == "extendAll"


def contacts(look, call):
    """Instants of the machine at which somebody went on with what a call had left: call, look, or settlement."""
    found = [other["began"] for other in siblings(look, call) if other["began"] > call["began"]]
    if call["endpoint"] != "extendAll":
        found += [other["began"] for other in look.checks_of[call["subscription"]] if other["began"] > call["began"]]
    for entry in records(look, call):
        settled = entry.get("settled_at") or entry.get("completed_at")
        if settled is not None:
            found.append(business_as_real(look, call, settled))
            if is_dated_by_its_statement(call, settled):
                found += learned(look, call, settled)
    return found


def unused_leases(look, call):
    """How many holders did nothing that the store saw: fence, or attempts, count all of them."""
    held = sum(entry.get("fence", entry["attempts"]) for entry in records(look, call))
    first = min(other["began"] for other in siblings(look, call))
    seen = len(siblings(look, call)) + sum(
        1 for other in look.checks_of[call["subscription"]] if other["began"] > first)
    return max(0, held - seen)


def deaths(look):
    """When each process of a replica ended, by itself or killed: by (client, life)."""
    return {
        (client, absence["life"]): absence["from"] for client, absences in look.absences.items()
        for absence in absences if absence["why"] in ("kill", "drain")}


def left_behind(look):
    """(call, death) of each call that changes something and whose sender died before it could hear the answer."""
    gone = deaths(look)
    for call in look.calls:
        if call["endpoint"] not in ("changePrice", "cancel", "extend", "extendAll"):
            continue
        end = call["ended"] if call["ended"] is not None else float("inf")
        at = gone.get((call["client"], call["life"]))
        if at is not None and at < end and at < call["began"] + 30_000:
            yield call, at


def silent_until(look, since, until):
    """The longest that the App Store itself asked for silence, between two instants, on a real clock."""
    if not look.is_real:
        return 0
    return sum(
        max(0, min(until, asked["retry_after"]) - max(since, asked["ended"])) for asked in look.calls
        if asked["answer"] == 429 and asked["retry_after"] is not None and asked["ended"] is not None
        and asked["ended"] < until and asked["retry_after"] > since)


def takeovers(look):
    """(call, death, seconds that nobody went on with it, seconds that were allowed) of what the dead left."""
    gone = sorted(deaths(look).values())
    for call, at in left_behind(look):
        later = [instant for instant in contacts(look, call) if instant > at]
        settled = min((settled for entry in records(look, call)
                       if (settled := entry.get("settled_at") or entry.get("completed_at"))), default=None)
        if look.is_forgotten(call["began"]):
            continue
        if settled is not None and is_dated_by_its_statement(call, settled) and any(
                instant <= at for instant in learned(look, call, settled)):
            # The call was not needed any more: what it asked for had been told before its sender died.
            continue
        next_at = min(later, default=look.real_end)
        allowed = TAKEOVER_MAX + look.was_away(at, next_at) + look.stood_still(at, next_at, LONG_PAUSE)
        allowed += silent_until(look, at, next_at)
        # After a loss calls wait for the history, too.
        allowed += max(look.caught_up(at, next_at), look.held_back(at, next_at)) + look.refused_alike(at, next_at)
        # Whoever took it over may have died as well before it did anything: each such lease is one more wait.
        others = sum(1 for death in gone if at < death < next_at)
        allowed += LEASE * min(others, unused_leases(look, call))
        yield call, at, next_at - at, allowed


# What the store refuses for no reason.

# So many rows may end by what all are refused with, before everything stops.
ENDED_ALIKE_MAX = 49


def refusals_few(look):
    """Of what the store refuses for no reason, single rows end, and few of those that are refused alike."""
    odd, systemic = look.refusals
    ended = [
        change for change in look.changes if change["state"] == "rejected"
        and any(call["fault"] == "refuse"
                for request in look.requests if change["id"] in request["change_ids"]
                for call in look.by_id.get(request["id"], []))]
    most = odd + ENDED_ALIKE_MAX * systemic
    wrong = [f"{len(ended)} rows ended by {odd} refusals of one call and {systemic} of all, {most} may"]
    return sum(call["fault"] == "refuse" for call in look.calls), wrong if len(ended) > most else []


def taken_over(look):
    """What a dead replica had under way is gone on with, or settled, by another in 30 s."""
    wrong, counted = [], 0
    for call, at, waited, allowed in takeovers(look):
        counted += 1
        if waited > TAKEOVER_MAX and waited <= allowed:
            look.excused["taken_over"] += 1
        if waited > allowed:
            wrong.append(f"{call['id']}: call {call['call']} by {call['client']}, which died at {at}; nobody went on"
                         f" for {waited:.0f} ms, {allowed} allowed")
    return counted, wrong


CHECKS = [
    cancelled_once, elsewhere_settled, events_whole, webhooks_delivered, webhooks_true, webhooks_signed,
    webhooks_in_order, extended_once, extensions_settled, mass_once, refusals_few, taken_over]
