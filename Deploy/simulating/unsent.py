"""Why a row ended without a call that the App Store took: each such end is held against what the store had told by then, what
passed the wire, and what people did."""
import collections

import refusals

DAY = 86_400_000
# There are at most four days between two turns of a part of the service, and a turn may be left out.
SHORT = 6 * DAY
# The last days in which a row could be sent: something must have held it back then.
LAST = 8 * DAY
# How long after its approval a wave is released, at most: two days after the first, three after the second, each at a turn.
WAVES = {2: 6 * DAY, 3: 13 * DAY}


class Unsent:
    def __init__(self, world, store, database):
        self.world, self.store, self.db = world, store, database
        self.past = refusals.Past(store)
        self.done = [deed for deed in world["deeds"] if not deed.get("refusal")]
        self.approved = {deed["subject"]: deed["at"] for deed in self.done if deed["kind"] == "approve"}
        self.references = collections.defaultdict(set)
        for call in database["calls"]:
            if call["kind"] == "price_change":
                for change in call["carries"]:
                    self.references[change].add(call["call_id"])
        self.refused = {call.get("requestReferenceId") for call in store["calls"] if call["status"] >= 400}
        self.refused |= {line["reference"] for line in world["wire"]
                         if line.get("outcome") == "refused" and "reference" in line and line.get("status") not in (429, 503)}

    def check(self):
        """Each fault with its name."""
        faults = []
        for change in self.db["changes"]:
            has_cause = {"rejected": self.was_refused, "aborted": self.was_withdrawn, "ineligible": self.was_ineligible,
                         "missed": self.was_kept}.get(change["state"])
            if has_cause and not has_cause(change):
                faults.append(("ended-without-cause", f"{change['change_id']} of {change['id']} {change['sku']} is "
                               f"{change['state']} ({change['reason']}) since {change['ended_at']}"))
        return faults

    def was_refused(self, change):
        """A call of its own was."""
        return bool((self.references[change["change_id"]] | {change["reference"]}) & self.refused)

    def was_withdrawn(self, change):
        """Its batch was withdrawn, or is to be undone."""
        batch, at = change["batch_id"], self.ended_at(change)
        return any(deed["at"] <= at and (deed["kind"] == "withdraw" and deed["subject"] == batch
                                         or deed["kind"] == f"undo {batch}") for deed in self.done)

    def was_ineligible(self, change):
        """The store, or another row, had made it so by then; of a price or a consent that is another, it had said something
        since the row was handed in. An undo goes until the customer is told."""
        code, at = change["reason"], self.ended_at(change)
        row = {"id": change["id"], "sku": change["current_sku"] or change["sku"], "price": change["price"],
               "dependents": change["dependent_skus"]}
        if code == "drifted":
            since = self.approved.get(change["batch_id"], 0) - refusals.POST
            events = [event for event in self.past.events[change["id"]] if event["at"] <= at]
            # Nobody pays yet for an item that comes with the next renewal, in place of another.
            is_to_come = bool(events) and any(item.get("replacedBy") == row["sku"] for item in events[-1].get("items") or ())
            return change["undoes"] and is_to_come or any(since <= event["at"] for event in events)
        if code == "already_communicated" and change["undoes"] and at > change["send_by"]:
            return True
        others = dict(self.db, changes=[other for other in self.db["changes"] if other is not change])
        return code in refusals.CODES and bool(refusals.CODES[code](self.past, others, row, {"at": at}))

    def was_kept(self, change):
        """It was approved too late, waited for its wave, or something held calls back in the last days in which it could go."""
        until = change["send_by"]
        since = max(self.approved.get(change["batch_id"], until), change["send_after"] or 0)
        if until - since < SHORT or change["wave"] in WAVES and until - self.approved[change["batch_id"]] < WAVES[change["wave"]] + SHORT:
            return True
        since = max(since, until - LAST)
        return self.is_paused(since, until) or self.has_trouble(change["id"], since, until)

    def is_paused(self, since, until):
        is_paused = False
        for deed in self.done:
            if deed["subject"] == "all" and deed["kind"] in ("pause", "resume"):
                if is_paused and since <= deed["at"] or since <= deed["at"] <= until and deed["kind"] == "pause":
                    return True
                if deed["at"] > until:
                    return False
                is_paused = deed["kind"] == "pause"
        return is_paused

    def has_trouble(self, id, since, until):
        """Its own calls failed, or those of several, after which everything halts for a while."""
        failed = {line["subject"] for line in self.world["wire"]
                  if since <= line["at"] <= until and line.get("outcome") not in (None, "answered")}
        return id in failed or len(failed) >= 3

    def ended_at(self, change):
        return change["ended_at"] if change["ended_at"] is not None else self.store["now"]


def check(world, store, database):
    return Unsent(world, store, database).check()
