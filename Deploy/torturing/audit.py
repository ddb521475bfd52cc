"""The auditor: its own reading of the App Store's journals and of the tables. It shares no code with the product.

Every check takes the evidence (see evidence.py) and returns how many things it looked at and what is wrong, each
with the ids and instants that prove it. Instants are UTC milliseconds: `at` of the business clock, `began` and
`ended` of the machine's.
"""

import collections
import json
import time

import around
import ends
from look import (
    CLIENT_DEADLINE, DISOWNED, DRAIN_MAX, FINAL, LATE_TOGETHER, LATE_WITHIN, LEASE_LEFT, LONG_PAUSE, RECONNECTED_IN, RENEWED_EVERY,
    SILENCE_BEGINS, STAMPED_IN, TRUE_ANSWERS, TURNS, WAITING, Look, change_of, fates_of, is_definite)


# An increase is due at the second renewal or the third.
PERIODS_AHEAD = 3


def rows_accounted(look):
    """Every row of every file is one change with the same words, or one reject."""
    wrong, counted = [], 0
    ids = {batch["name"]: batch["batch_id"] for batch in look.batches}
    changes = {(change["batch_id"], change["line"]): change for change in look.changes}
    rejects = {(reject["batch_id"], reject["line"]) for reject in look.rejects}
    for name, rows in look.files.items():
        batch = ids.get(name)
        for row in rows:
            counted += 1
            if batch is None:
                wrong.append(f"{name}:{row['line']}: the batch is not stored")
                continue
            change = changes.pop((batch, row["line"]), None)
            is_reject = (batch, row["line"]) in rejects
            if (change is not None) == is_reject:
                found = "both a change and a reject" if is_reject else "neither a change nor a reject"
                wrong.append(f"{name}:{row['line']} {row['subscription']} {row['sku']}: {found}")
            elif change and (
                    change["subscription"], change["sku"], change["price"], sorted(change["dependents"])) != (
                    row["subscription"], row["sku"], row["price"], sorted(row["dependents"])):
                wrong.append(f"{name}:{row['line']}: the change {change['id']} says otherwise")
    wrong += [f"{change['id']} stands in no file" for change in changes.values()]
    return counted, wrong


def states_sum(look):
    """The states of a batch add up to its rows, and its rejects to what it says."""
    wrong = []
    stored = collections.Counter(change["batch_id"] for change in look.changes)
    refused = collections.Counter(reject["batch_id"] for reject in look.rejects)
    for batch in look.batches:
        id = batch["batch_id"]
        if stored[id] != batch["row_count"]:
            wrong.append(f"{id}: {stored[id]} changes, {batch['row_count']} rows")
        if refused[id] != batch["rejected_row_count"]:
            wrong.append(f"{id}: {refused[id]} rejects, {batch['rejected_row_count']} said")
    for change in look.changes:
        if change["state"] not in FINAL | WAITING | {"queued", "sending", "unknown", "awaiting_approval"}:
            wrong.append(f"{change['id']}: unknown state {change['state']}")
    return len(look.batches), wrong


def final_or_waiting(look):
    """Every approved row is final, or waits for a renewal, for its instant, or for a pause to end."""
    wrong, counted = [], 0
    batches = {batch["batch_id"]: batch for batch in look.batches}
    for change in look.changes:
        batch = batches.get(change["batch_id"])
        if batch is None or batch["state"] == "awaiting_approval":
            continue
        counted += 1
        state = change["state"]
        if (change["ended_at"] is not None) != (state in FINAL):
            wrong.append(f"{change['id']}: {state}, but ended at {change['ended_at']}")
        if state in FINAL:
            if state not in ("effective", "declined", "cancelled", "lapsed") and not change["reason"]:
                wrong.append(f"{change['id']}: {state} without a reason")
            continue
        if state in WAITING and change["due_effective_at"] > look.end - look.grace:
            continue
        if state in WAITING and is_in_retry(look, change):
            continue
        # It was told to wait for its instant, which lies before its renewal.
        if state == "queued" and look.end - look.grace < (change["send_after"] or 0) <= (
                change["due_effective_at"] or 0):
            continue
        wrong.append(
            f"{change['id']} of {change['subscription']}: {state} waits for nothing (reason"
            f" {change['reason']}, due {change['due_effective_at']}, ended {look.end})")
    return counted, wrong


def is_in_retry(look, change):
    """The store tries to charge the subscription: its renewal is late."""
    events = look.events_of[change["subscription"]]
    return bool(events) and events[-1]["status"] in (3, 4)


def applied_once(look):
    """No change was applied under two ids, and none more often than rows asked for it."""
    wrong = []
    asked = collections.Counter(
        (change["subscription"], change["sku"], change["price"]) for change in look.changes)
    applied = collections.defaultdict(list)
    for call, item in look.first_applications():
        applied[(call["subscription"], item["sku"], item["price"])].append(call)
    for key, calls in applied.items():
        if len(calls) > asked[key]:
            in_time = [call for call in calls if not look.outlived_its_sender(call)]
            if 0 < len(in_time) <= asked[key]:
                look.excused["applied_once, held by the store for longer than a lease after its sender's end"] += 1
                continue
            ids = ", ".join(f"{call['id']} at {call['at']}" for call in calls)
            wrong.append(f"{key[0]} {key[1]} {key[2]}: applied {len(calls)} times, asked"
                         f" {asked[key]} times: {ids}")
    return len(applied), wrong


def one_id_an_intent(look):
    """A change has a new id only after its earlier one was proved not to be applied."""
    wrong, counted = [], 0
    for change, requests in look.ids_of_change.items():
        counted += 1
        applied = [request["id"] for request in requests if look.was_applied(request["id"])]
        in_time = [id for id in applied if look.was_applied_in_time(id)]
        if len(applied) > 1 and len(in_time) != 1:
            wrong.append(f"{change}: applied under {', '.join(applied)}")
        for earlier, later in zip(requests, requests[1:]):
            problem = unproved(look, earlier, later)
            if problem:
                wrong.append(f"{change}: {later['id']} follows {earlier['id']}, {problem}")
    return counted, wrong


def unproved(look, earlier, later):
    """Why nobody could know that the earlier id was not applied; None when it was proved."""
    calls = look.by_id.get(earlier["id"], [])
    if look.was_applied_in_time(earlier["id"]):
        return "which was applied"
    next_calls = look.by_id.get(later["id"], [])
    until = min((call["began"] for call in next_calls), default=float("inf"))
    # A refusal that its sender did not live to read says nothing to anybody.
    lost = [call for call in calls if not (is_definite(call) and look.was_heard(call, until))]
    if not lost:
        return None
    # What its client has given up may still take effect: a look counts once that is over.
    last = max(call["began"] for call in lost) + (CLIENT_DEADLINE if look.is_real else 0)
    reads = [
        read for read in look.reads_of[earlier["subscription"]]
        if last <= read["began"] <= until and read["fault"] in TRUE_ANSWERS
        and look.was_heard(read, until)]
    if reads:
        return None
    return f"whose call {lost[-1]['call']} had no answer, and nobody looked in time"


def ids_committed(look):
    """Every id that reached the store stands in the ledger, with the very words of its call."""
    wrong = []
    known = {request["id"]: request for request in look.requests}
    for id, calls in look.by_id.items():
        request = known.get(id)
        if request is None:
            if all(look.is_forgotten(call["began"]) for call in calls):
                look.excused["ids_committed in a database that was lost"] += 1
            else:
                wrong.append(f"{id} of {calls[0]['subscription']}: called at {calls[0]['at']}, not stored")
            continue
        said = request["call"] if isinstance(request["call"], dict) else json.loads(request["call"])
        words = sorted(
            (item["sku"], item["price"], tuple(sorted(item["dependentSKUs"])))
            for item in said["items"])
        for call in calls:
            if call["items"] and words != sorted(
                    (item["sku"], item["price"], tuple(item["dependents"])) for item in call["items"]):
                wrong.append(f"{id}: call {call['call']} says other than the ledger")
            if call["code"] == 4000097 and call["fault"] != "refuse_repeats":
                wrong.append(f"{id}: call {call['call']} repeats the id with other words")
    return len(look.by_id), wrong


def sends_committed(look):
    """No call left that the ledger had not counted before as an attempt of its id."""
    wrong = []
    for id, calls in look.by_id.items():
        request = look.request_by_id.get(id)
        known = [call for call in calls if not look.is_forgotten(call["began"])]
        if request and len(known) > request["attempts"]:
            wrong.append(f"{id}: {len(known)} calls, {request['attempts']} attempts")
    return len(look.by_id), wrong


def zombies_silent(look):
    """Who was frozen past its lease sends nothing of what others took over meanwhile."""
    wrong, counted = [], 0
    for client, absences in look.absences.items():
        for absence in absences:
            if absence["why"] != "freeze" or absence["to"] is None:
                continue
            since, to = absence["from"], absence["to"]
            counted += to - since > 10_000
            for call in look.price_calls:
                # Later it may have taken the call over anew, after a look at the ledger.
                if call["client"] != client or not to <= call["began"] < to + 50:
                    continue
                others = [other["call"] for other in look.by_id[call["id"]]
                          if other["client"] != client and since < other["began"] < to]
                if others:
                    wrong.append(f"{call['id']}: call {call['call']} by {client}, frozen from {since} to"
                                 f" {to}, after call {others[0]} by another")
    return counted, wrong


def holds_until(look, call):
    """Until when nobody else may call for the subscription.

    A call is over for its sender with the answer, with its patience, or with its own end; and others take over
    from one that is frozen, or kept from renewing its lease, once the lease is over.
    """
    latest = call["began"] + CLIENT_DEADLINE
    end = latest if call["ended"] is None else min(call["ended"], latest)
    absence = look.gone_during(call, end)
    if absence:
        end = min(end, absence["from"] + (LEASE_LEFT if absence["why"] == "freeze" else 0))
    lapse = lease_lapse(look, call["began"], end)
    if lapse < end:
        look.excused["no_overlap"] += 1
        end = lapse
    return end


def lease_lapse(look, began, end):
    """When a lease lapsed whose call left at `began`, because nobody could renew it; `end` where it did not.

    It is renewed every 2.5 s: only a time without a database, or without a turn of the machine, that lasts for so
    long that no renewal fits in between.
    """
    quiet = sorted([*look.outages, *(stall for stall in look.stalls if stall[1] - stall[0] > RECONNECTED_IN)])
    since, until = None, None
    for begin, over in quiet:
        if over < began or begin > end:
            continue
        # Renewals that fall between two outages may find no connection yet.
        if until is not None and begin - until < RENEWED_EVERY:
            until = max(until, over)
        else:
            since, until = begin, over
        if until - since > LEASE_LEFT - RENEWED_EVERY - RECONNECTED_IN:
            # When a call leaves, its lease lasts for as long anyway.
            return min(end, max(began, since) + LEASE_LEFT)
    return end


def no_overlap(look):
    """Never two calls in flight that change one subscription: changes, cancellations and extensions."""
    wrong, counted = [], 0
    by_subscription = collections.defaultdict(list)
    for call in look.calls:
        if call["endpoint"] in ("changePrice", "cancel", "extend"):
            counted += 1
            by_subscription[call["subscription"]].append(call)
    for subscription, calls in by_subscription.items():
        calls.sort(key=lambda call: call["began"])
        busy_until, holder = -1, None
        for call in calls:
            if call["began"] < busy_until:
                wrong.append(
                    f"{subscription}: call {call['call']} ({call['id']}) began at {call['began']},"
                    f" call {holder['call']} ({holder['id']}, {holder['fault']}) ended at {busy_until}")
            end = holds_until(look, call)
            if end > busy_until:
                busy_until, holder = end, call
    return counted, wrong


def rate_kept(look, window, factor):
    """At most `limit` calls in every window of so many milliseconds of the business clock."""
    wrong, counted = [], 0
    for endpoint, limit in look.limits.items():
        # Some endpoints share one limit.
        names = endpoint.split("+")
        arrivals = sorted(call["at"] for call in look.calls if call["endpoint"] in names)
        counted += len(arrivals)
        allowed, index = limit * factor, 0
        while index + allowed < len(arrivals):
            if arrivals[index + allowed] - arrivals[index] >= window:
                index += 1
                continue
            # One finding a crowd: from its first call to the last that is in no kept window.
            first, narrowest, is_late, is_paused = index, window, look.is_real, True
            while index + allowed < len(arrivals) and (
                    arrivals[index + allowed] - arrivals[index] < window):
                narrowest = min(narrowest, arrivals[index + allowed] - arrivals[index])
                is_late = is_late and was_late(arrivals, index, allowed, window)
                is_paused = is_paused and was_paused(look, arrivals, index, allowed, window)
                index += 1
            last = index + allowed - 1
            if is_late:
                look.excused["rate" if is_paused else "rate without a measured pause"] += 1
                look.latest = max(look.latest, window - narrowest)
                continue
            wrong.append(
                f"{endpoint}: {last - first + 1} calls from {arrivals[first]} to {arrivals[last]}, at the"
                f" worst {allowed + 1} in {narrowest} ms, {allowed} allowed in {window} ms")
    return counted, wrong


def was_late(arrivals, index, allowed, window):
    """Whether the first call of a narrow window arrived late, rather than that a call was too many.

    Calls leave at instants that lie evenly apart, or nine tenths of that where they make up for missed ones, never earlier.
    So one that is late, by a busy machine or by the making of its connection, comes after a longer pause: with a few
    calls before it the rate is kept.
    """
    if window - (arrivals[index + allowed] - arrivals[index]) > LATE_WITHIN:
        return False
    together = max(4, allowed * LATE_TOGETHER // window + 1)
    return index < together or any(
        arrivals[index + allowed] - arrivals[index - back] >= window + back * window * 9 // (allowed * 10)
        for back in range(1, together + 1))


def was_paused(look, arrivals, index, allowed, window):
    """Whether the machine was measured to keep processes waiting for long enough just before a late call."""
    waits = [min(to, arrivals[index] + STAMPED_IN) - max(since, arrivals[index] - LATE_WITHIN)
             for since, to in look.stalls
             if since < arrivals[index] + STAMPED_IN and to > arrivals[index] - LATE_WITHIN]
    missing = window - (arrivals[index + allowed] - arrivals[index])
    return missing <= max(TURNS * max(waits, default=0), sum(waits))


def silence_kept(look):
    """Once the App Store asked for silence with a 429, no replica calls that endpoint until the instant it named."""
    wrong, counted = [], 0
    if not look.is_real:
        return 0, []
    for asked in look.calls:
        if asked["answer"] != 429 or asked["retry_after"] is None:
            continue
        counted += 1
        told = asked["ended"]
        # Who was to tell the others may have ended before it could, or the database been away.
        if (look.gone_during(asked, told + SILENCE_BEGINS) or look.was_away(told, told + SILENCE_BEGINS)
                or look.is_forgotten(told)):
            look.excused["silence_kept"] += 1
            continue
        begins = told + SILENCE_BEGINS + look.stood_still(told, told + 2 * SILENCE_BEGINS, LONG_PAUSE)
        for call in look.calls:
            if call["endpoint"] == asked["endpoint"] and begins < call["began"] < asked["retry_after"]:
                wrong.append(
                    f"{call['endpoint']}: call {call['call']} at {call['began']}, though call"
                    f" {asked['call']} was told at {told} to wait until {asked['retry_after']}")
    return counted, wrong


def drained(look):
    """SIGTERM ends a replica in 10 s with exit code 0, a second one at once."""
    wrong = []
    for stop in look.stops:
        took = stop["to"] - stop["from"]
        allowed = 1_500 if stop["twice"] else DRAIN_MAX
        allowed += look.stood_still(stop["from"], stop["to"], LONG_PAUSE)
        # A call that the App Store holds for longer is left to others: said by the code, once the time is used up,
        # and only with such a call.
        held = [call for call in look.calls
                if call["client"] == stop["client"] and stop["from"] - CLIENT_DEADLINE < call["began"] <= stop["to"]
                and (call["ended"] is None or call["ended"] > stop["to"] - 1_000)]
        is_broken_off = stop["code"] == 1 and took > DRAIN_MAX * 0.8 and held
        is_code_right = stop["code"] == 0 or is_broken_off or stop["twice"] and stop["code"] == 130
        if took > allowed or not is_code_right:
            wrong.append(
                f"{stop['client']}: exit code {stop['code']} after {took} ms"
                f"{', two signals' if stop['twice'] else ''}, from {stop['from']}")
    return len(look.stops), wrong


def rate_second(look):
    """In every second."""
    return rate_kept(look, 1000, 1)


def rate_hour(look):
    """In every hour."""
    return rate_kept(look, 3_600_000, 3600)


def applied_in_ledger(look):
    """What the store applied and what the ledger counts as sent are the same changes: price, item, dependents."""
    wrong, counted, disowned = [], 0, 0
    claimed = {}
    # What goes on with a call that a database lost; which call, only the store knows.
    adopted = {
        change["id"] for call, item in look.first_applications()
        if call["id"] not in look.request_by_id and (change := change_of(look, call, item))}
    for change in look.changes:
        ids = [request["id"] for request in look.ids_of_change[change["id"]]]
        applied = [id for id in ids if look.was_applied(id)]
        # A subscription may be over before its change is applied: that ends the change too.
        counts_as_sent = change["state"] in WAITING | {"effective", "declined"}
        counted += 1
        for id in applied:
            claimed[(id, change["sku"])] = change
            if change["state"] in DISOWNED:
                wrong.append(f"{change['id']}: applied as {id}, but {change['state']}")
        if counts_as_sent and not applied and change["id"] not in adopted:
            wrong.append(f"{change['id']}: {change['state']}, but the store applied none of {ids}")
    for call, item in look.first_applications():
        change = claimed.get((call["id"], item["sku"]))
        if change is None and call["id"] not in look.request_by_id:
            change = change_of(look, call, item)
        if change is None:
            # report.reconciliation tells finance of each: they ended here, and the App Store has them.
            if look.is_forgotten(call["began"]) and "ended_yet_applied" in look.reconciliation:
                look.excused["applied_in_ledger, named by report.reconciliation"] += 1
                disowned += 1
                continue
            wrong.append(f"{call['id']} {item['sku']}: applied at {call['at']}, no change knows it")
            continue
        # The App Store is told of those on the same subscription only.
        elsewhere = {name for _, _, name in around.places(look, change)}
        told = sorted(set(change["dependents"]) - elsewhere)
        if (change["price"], told) != (item["price"], item["dependents"]):
            wrong.append(f"{call['id']} {item['sku']}: {item['price']} and {item['dependents']} applied,"
                         f" {change['price']} and {told} asked")
    if disowned > look.reconciliation.get("ended_yet_applied", 0):
        wrong.append(f"{disowned} are applied and no change knows them, report.reconciliation tells of"
                     f" {look.reconciliation['ended_yet_applied']}")
    return counted, wrong


def ends_equal(look):
    """What became of every applied change: the store and the ledger say the same, to the effective instant."""
    wrong, counted = [], 0
    for call, item in look.first_applications():
        change = change_of(look, call, item)
        if change is None:
            continue
        counted += 1
        fates = fates_of(look, call, item)
        said = (change["state"] if change["state"] in FINAL else None, change["effective_at"])
        if not any(said == (told["end"], told["at"] if told["end"] == "effective" else None)
                   for told in fates):
            told = fates[-1]
            wrong.append(
                f"{change['id']} {call['subscription']} {item['sku']}: the store says {told['end']} at"
                f" {told['at']}, the ledger {change['state']} at {change['effective_at']}"
                f" ({change['reason']})")
    return counted, wrong


def was_cut_on_the_way(look, change, call, date):
    """Whether the last instant for a renewal passed between intent and effect: the ledger's, or the store's.

    Nobody is told so before the subscriber is told, or that renewal has gone by. The instant lies 60, 27 or 7 days
    before an increase's renewal, or 22 where a weekly one is due at the fourth from the call; a day before a decrease's;
    and in the Sandbox at the renewal before it. A replica whose clock was set forth takes it for passed when it has not,
    and of two calls the earlier may be the one that took effect: then the intent is the later one.
    """
    due = change["due_effective_at"]
    if due is None or due <= look.end - look.grace or change["sent_at"] is None:
        return False
    if look.is_real:
        # The end of the period that ran when the round began is in no event.
        cuts = [look.owners[call["subscription"]]["expires"]]
        cuts += [event["expiresAt"] for event in look.events_of[call["subscription"]]]
    elif change["state"] == "accepted" and change["acceptance"] == "informed":
        # What the subscriber of a weekly plan was told of may also be the fourth renewal of a call a week earlier.
        if abs(due - date) != 7 * 86_400_000:
            return False
        cuts = [renewal - 22 * 86_400_000 for renewal in (due, date)]
    elif change["state"] != "scheduled":
        # Told: the ledger has the renewal by it.
        return False
    else:
        leads = (1,) if change["direction"] == "decrease" else (60, 27, 22, 7)
        cuts = [renewal - days * 86_400_000 for renewal in (due, date) for days in leads]
    first, last = sorted((change["sent_at"], call["applied_at"]))
    return any(first <= cut <= last for cut in cuts)


def is_period_stretched(look, change, call, date):
    """Whether the ledger reckons with the length of a running period that an extension had made longer.

    The Sandbox's periods are as long as the running one, for nobody tells their length. So what waits for a later
    renewal is dated too late by the extension, once for each period until then, and exactly so. Of several extensions
    those count that the ledger knew when it judged: what was told after the call stretched nothing for it.
    """
    if not look.is_real:
        return False
    events = look.events_of[call["subscription"]]
    expires, stretched, ends = look.owners[call["subscription"]]["expires"], 0, []
    for event in events:
        if event["at"] > call["applied_at"]:
            break
        if event["kind"] == "RENEWAL_EXTENDED":
            if look.told.get(event["uuid"], event["at"]) <= call["began"]:
                stretched += event["expiresAt"] - expires
        elif event["kind"] == "DID_RENEW":
            stretched = 0
        expires = event["expiresAt"]
    late = change["due_effective_at"] - date
    return stretched > 0 and late > 0 and late % stretched == 0 and late // stretched <= PERIODS_AHEAD


def is_day_of_extended_month(look, change, call, date):
    """Whether both are days of one month that an extension had led to its end, the ledger's the earlier of them.

    A month that was extended to a 31st renews on the 30th of a shorter month. Whether it renews on a 30th or a 31st from
    then on, no statement tells, and the contract takes the day that is known.
    """
    if look.is_real or not any(
            event["kind"] == "RENEWAL_EXTENDED" and event["at"] <= call["applied_at"]
            for event in look.events_of[call["subscription"]]):
        return False
    ours, theirs = (time.gmtime(at / 1000) for at in (change["due_effective_at"], date))
    return ours[:2] == theirs[:2] and 28 <= ours.tm_mday < theirs.tm_mday


def extended_since(look, call):
    """By how much the renewal that came next was extended after the call took effect, in milliseconds."""
    expires, moved = look.owners[call["subscription"]]["expires"], 0
    for event in look.events_of[call["subscription"]]:
        if event["kind"] == "RENEWAL_EXTENDED" and event["at"] > call["applied_at"]:
            moved += event["expiresAt"] - expires
        expires = event["expiresAt"]
    return moved


def submitted_at(change):
    """The business clock's instant that the id of its batch bears, a UUID of version 7."""
    return int(change["batch_id"].replace("-", "")[:12], 16)


def is_consent_not_known(look, change):
    """Whether the ledger did not know, when it called, whether the subscriber must agree.

    Its forecast is as old as its batch. One that was certain by an increase to come of another item is not any more where
    that increase ended before the call without effect.
    """
    if change["forecast_consent"] == "required":
        return any(
            other["subscription"] == change["subscription"] and other["sku"] != change["sku"]
            and other["direction"] == "increase" and other["effective_at"] is None
            and other["ended_at"] is not None and other["ended_at"] <= change["sent_at"]
            and other["sent_at"] is not None and submitted_at(change) < other["ended_at"]
            for other in look.changes)
    return change["forecast_consent"] == "not_known"


def is_certain_later_alone(look, change, date):
    """Whether the forecast is certain only for a later renewal than this one, by another item's increase at this very one.

    By this one nobody knew whether the subscriber must agree, and a call that was late for consent was dated a renewal later.
    """
    return change["forecast_consent"] == "required" and bool(change["forecast_not_known"]) and any(
        other["subscription"] == change["subscription"] and other["sku"] != change["sku"]
        and other["direction"] == "increase" and other["due_effective_at"] == date
        and other["sent_at"] is not None and other["sent_at"] < change["sent_at"]
        for other in look.changes)


def is_dated_as_if_asked(look, change, call, item, date):
    """Whether the date is that of an increase which needs consent, where the ledger said that it does not know.

    By contract one that is not known is dated like one that needs it. Where the store asks nobody, a call 27 to 60 days
    before a renewal is in time for it, and one that needs consent may not be; and of a weekly one the fourth renewal
    counts, not the first that is seven days away. By the fourth one the store may have to ask nevertheless: since another
    item of the subscription rose at a renewal before it, and not before the ledger's.
    """
    asks = call["effects"].get(item["sku"], {}).get("needsConsent")
    rises = [told["effectiveAt"] for sku, told in call["effects"].items() if sku != item["sku"] and "effectiveAt" in told]
    asks_by_then = asks and any(change["due_effective_at"] <= at < date for at in rises)
    if look.is_real or change["sent_at"] is None or not (
            is_consent_not_known(look, change) or is_certain_later_alone(look, change, date)):
        return False
    if asks is None or asks and not asks_by_then:
        return False
    # Both dates moved by what the renewal was extended since.
    moved = extended_since(look, call)
    due, date, day = change["due_effective_at"] - moved, date - moved, 86_400_000
    if due < date:
        return date - due in (7 * day, 14 * day, 21 * day) and due - change["sent_at"] >= 7 * day
    return call["applied_at"] + 27 * day <= date < change["sent_at"] + 60 * day <= due


def dates_equal(look):
    """What waits for its renewal waits for the one that the store will charge it at."""
    wrong, counted = [], 0
    for call, item in look.first_applications():
        change = change_of(look, call, item)
        if change is None or change["state"] not in WAITING:
            continue
        counted += 1
        events = look.events_of[call["subscription"]]
        recent = [event for event in events if event["at"] >= look.end - look.grace]
        dates = [
            found["effectiveAt"] for event in [*events[:len(events) - len(recent)][-1:], *recent]
            for found in event["items"]
            if found["sku"] == item["sku"] and found.get("newPrice") == item["price"]]
        if dates and change["due_effective_at"] not in dates:
            if was_cut_on_the_way(look, change, call, dates[-1]):
                look.excused["dates_equal"] += 1
                continue
            if is_dated_as_if_asked(look, change, call, item, dates[-1]):
                look.excused["dates_equal of a consent that is not known"] += 1
                continue
            if is_day_of_extended_month(look, change, call, dates[-1]):
                look.excused["dates_equal of an extended month"] += 1
                continue
            if is_period_stretched(look, change, call, dates[-1]):
                look.excused["dates_equal of a stretched period"] += 1
                continue
            wrong.append(
                f"{change['id']} {call['subscription']} {item['sku']}: the store charges it at"
                f" {dates[-1]}, the ledger says {change['due_effective_at']} ({change['state']}, applied"
                f" at {call['applied_at']} as {call['id']})")
    return counted, wrong


def verdicts_equal(look):
    """Whether the subscriber was asked for consent or only informed: the store and the ledger say the same."""
    wrong, counted = [], 0
    for call, item in look.first_applications():
        change = change_of(look, call, item)
        if change is None or change["direction"] != "increase":
            continue
        counted += 1
        asked = change["consent_asked_at"] is not None or change["acceptance"] == "consented"
        informed = change["acceptance"] == "informed"
        fates = fates_of(look, call, item)
        if not any((asked, informed) == (told["asked"], told["informed"]) for told in fates):
            wrong.append(
                f"{change['id']} {call['subscription']} {item['sku']}: the store asked"
                f" {fates[-1]['asked']}, informed {fates[-1]['informed']}; the ledger asked {asked},"
                f" informed {informed} ({change['state']})")
    return counted, wrong


def dependents_proved(look):
    """Every dependent of a declined parent is gone at the store, and the ledger holds the proof."""
    wrong, counted = [], 0
    fallen = {change["id"] for change, _, _ in around.falls(look)}
    # Those on another subscription are told apart: see around.py.
    known = {(entry["change_id"], entry["sku"]): entry for entry in look.dependents if not entry["is_cross_subscription"]}
    for call, item in look.first_applications():
        change = change_of(look, call, item)
        if change is None or change["state"] != "declined":
            continue
        for sku in item["dependents"]:
            if (change["id"], sku) not in known:
                wrong.append(f"{change['id']}: the dependent {sku} was not cancelled")
    for (change, sku), entry in known.items():
        counted += 1
        parent = look.change_by_id.get(change)
        # A parent that left with its subscription before consent took its dependents with it.
        if parent is None or parent["state"] not in ("declined", "cancelled", "lapsed"):
            wrong.append(f"{change}: {sku} is cancelled, its parent is not gone")
            continue
        is_fresh = (parent["ended_at"] or 0) > look.end - look.grace
        if entry["state"] == "not_needed" and change not in fallen:
            # Its consent was told after its end.
            continue
        if entry["state"] != "confirmed":
            if not is_fresh:
                wrong.append(f"{change}: {sku} is {entry['state']}: {entry['detail']}")
            continue
        events = look.events_of[parent["subscription"]]
        if events and events[-1]["status"] in (1, 3, 4) and any(
                found["sku"] == sku and not found["isLeaving"] for found in events[-1]["items"]):
            wrong.append(f"{change}: {sku} is confirmed as gone, and the store has it")
    return counted, wrong


def nothing_stuck(look):
    """No notification was quarantined."""
    wrong = [f"{entry['notification_uuid']}: {entry['error']}" for entry in look.inbox if entry["error"]]
    return len(look.events), wrong


CHECKS = [
    rows_accounted, states_sum, final_or_waiting, applied_once, one_id_an_intent, ids_committed,
    sends_committed, no_overlap, zombies_silent, rate_second, rate_hour, silence_kept, drained, applied_in_ledger, ends_equal, dates_equal,
    verdicts_equal, dependents_proved, nothing_stuck, *around.CHECKS, *ends.CHECKS]


def audit(evidence):
    """(name, what it means, counted, violations) of every check, and how many findings the machine excuses."""
    look = Look(evidence)
    results = []
    for check in CHECKS:
        counted, wrong = check(look)
        sentence = " ".join(check.__doc__.split())
        results.append((check.__name__, sentence, counted, wrong))
    return results, dict(look.excused)


def longest_wait(look):
    """The longest that a call without a usable answer waited for the next call or look, in seconds."""
    longest = 0
    for id, calls in look.by_id.items():
        for call in calls:
            usable = is_definite(call) or call["answer"] == 200 and call["fault"] in TRUE_ANSWERS
            later = [
                other["began"] for other in [*calls, *look.reads_of[call["subscription"]]]
                if call["ended"] is not None and other["began"] > call["ended"]]
            if not usable and later:
                longest = max(longest, min(later) - call["ended"])
    return round(longest / 1000, 1)


def latest_call(look):
    """By how much the latest call missed its place, as far as a window shows it."""
    rate_second(look)
    return look.latest


def figures(evidence):
    """Counts that say how much of the trouble reached the product."""
    look = Look(evidence)
    return {
        "calls": len(look.calls),
        "price_calls": len(look.price_calls),
        "repeated_calls": sum(call["repeated"] for call in look.price_calls),
        "ids": len(look.by_id),
        "calls_with_fault": sum(call["fault"] is not None for call in look.calls),
        "applied": sum(1 for _ in look.first_applications()),
        "events": len(look.events),
        "latest_call_milliseconds": latest_call(look),
        "longest_wait_for_retry_seconds": longest_wait(look),
        "takeovers": len(list(around.takeovers(look))),
        "longest_takeover_seconds": round(max(
            (waited for _, _, waited, _ in around.takeovers(look)), default=0) / 1000, 1),
        "cancelled": sum(call["endpoint"] == "cancel" and call["applied"] and not call["repeated"]
                         for call in look.calls),
        "dependents": dict(collections.Counter(
            ("elsewhere " if entry["is_cross_subscription"] else "") + entry["state"] for entry in look.dependents)),
        "webhooks": [len(look.outbox), len(look.hooks)],
        "extensions": dict(collections.Counter(entry["state"] for entry in look.extensions)),
        "all_extended": [[entry["summary_succeeded"], entry["summary_failed"]] for entry in look.masses],
        "states": dict(collections.Counter(change["state"] for change in look.changes)),
        "forecast_consent_off": sum(
            1 for call, item in look.first_applications()
            if (change := change_of(look, call, item)) and item["sku"] in call["effects"]
            # Where the forecast did not say, it was not wrong.
            and change["forecast_consent"] != "not_known" and change["forecast_consent"] != (
                {True: "required", False: "not_required", None: "none"}[
                    call["effects"][item["sku"]].get("needsConsent")])),
    }
