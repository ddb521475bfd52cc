"""What the auditor proves of rows that ended without the App Store: somebody was told that it refuses them, or the store's own
record bears the reason out. As in audit.py: each check returns how many things it looked at and what is wrong.
"""

from look import is_definite

ENDED_UNCALLED = {"rejected", "ineligible", "missed"}
# What was true so many graces before the end may be the newest that was known.
LATE_FACTS = 4
# Of ends for reasons that no record of the store can bear out, so many may be, and such a share of all.
OTHERS_LEAST = 5
OTHERS_SHARE = 0.05


def ends_proved(look):
    """A row that was never taken ended by a refusal that its sender heard, or by what the store's own record bears out."""
    wrong, counted, others = [], 0, []
    applied = applied_on(look)
    for change in look.changes:
        if change["state"] not in ENDED_UNCALLED or change["ended_at"] is None:
            continue
        counted += 1
        about = f"{change['id']} of {change['subscription']}: {change['state']} {change['reason']} at {change['ended_at']}"
        code = (change["reason"] or "").split(" ")[0]
        if change["state"] == "rejected" and code != "still_scheduled":
            if not was_refused(look, change, code):
                wrong.append(f"{about}, and nobody heard such a refusal")
        elif code not in REASONS:
            others.append(about)
        elif not REASONS[code](look, change, applied):
            wrong.append(f"{about}, and the store's record says otherwise")
    if others:
        look.excused["ends_proved, of reasons that the store has no record of"] += len(others)
    if len(others) > max(OTHERS_LEAST, OTHERS_SHARE * len(look.changes)):
        wrong.append(f"{len(others)} rows ended for reasons that nothing bears out, as {others[0]}")
    return counted, wrong


def was_refused(look, change, code):
    """Whether one of its calls was refused so, and its sender lived to hear it."""
    ids = {request["id"] for request in look.ids_of_change[change["id"]]} | {change["request_reference_id"]}
    calls = [call for id in ids if id is not None for call in look.by_id.get(id, [])]
    return any(is_definite(call) and look.was_heard(call) and str(call["code"] or call["answer"]) == code for call in calls)


def applied_on(look):
    """Of each subscription the calls that the store took."""
    found = {}
    for call, item in look.first_applications():
        found.setdefault(call["subscription"], []).append((call, item))
    return found


def views(look, change, subscription=None):
    """What the store said of the row's subscription, or of another, about the end of the row, or shortly before."""
    subscription = subscription or change["subscription"]
    since, until = change["ended_at"] - LATE_FACTS * look.grace, change["ended_at"] + look.grace
    own = [event for event in look.events_of[subscription] if event["at"] <= until and "items" in event]
    before = [event for event in own if event["at"] < since][-1:]
    owner = look.owners[subscription]
    start = {"status": 1, "autoRenews": True, "expiresAt": owner["expires"],
             "items": [{"sku": sku, "isLeaving": False} for sku in owner["skus"]]}
    return (before or [start]) + [event for event in own if event["at"] >= since]


def is_not_active(look, change, _):
    return any(view["status"] != 1 or view["expiresAt"] <= change["ended_at"] + look.grace for view in views(look, change))


def is_not_renewing(look, change, _):
    return any(not view["autoRenews"] for view in views(look, change))


def is_unpaid(look, change, _):
    return any(view["status"] in (3, 4) for view in views(look, change))


def lacks_item(look, change, _):
    return any(not any(item["sku"] == change["sku"] and not item["isLeaving"] for item in view["items"])
               for view in views(look, change))


def lacks_dependent(look, change, _):
    """One of its dependents did not renew, where it is or where it was said to be."""
    customer = look.owners[change["subscription"]]["customer"]
    for name in change["dependents"]:
        target, _, sku = name.rpartition("/")
        places = [target] if target else [
            id for id, owner in look.owners.items() if owner["customer"] == customer and (
                id == change["subscription"] or sku in owner["skus"])]
        if not all(id in look.owners and always_renews(look, change, id, sku) for id in places) or not any(
                sku in look.owners[id]["skus"] for id in places if id in look.owners):
            return True
    return False


def always_renews(look, change, id, sku):
    # Of one that was the customer's other subscription from the beginning; its own has the item only where it had it once.
    if id == change["subscription"] and sku not in look.owners[id]["skus"]:
        return True
    return all(view["status"] == 1 and view["autoRenews"] and view["expiresAt"] > change["ended_at"] + look.grace and any(
        item["sku"] == sku and not item["isLeaving"] for item in view["items"]) for view in views(look, change, id))


def has_drifted(look, change, applied):
    """Its price was another one since, or another item's rise made this one need consent."""
    prices = {item["price"] for event in look.events_of[change["subscription"]] for item in event.get("items") or ()
              if item["sku"] == change["sku"] and "price" in item}
    return len(prices) > 1 or bool(applied.get(change["subscription"]))


def conflicts(look, change, _):
    return any(other["id"] != change["id"] and (other["subscription"], other["sku"]) == (change["subscription"], change["sku"])
               for other in look.changes)


REASONS = {
    "not_active": is_not_active, "auto_renew_off": is_not_renewing, "billing_retry": is_unpaid, "grace_period": is_unpaid,
    "unknown_item": lacks_item, "drifted": has_drifted, "conflict_open_change": conflicts,
    "dependent_unknown": lacks_dependent}


def journals_whole(look):
    """The store's journals say who called, which call was tampered with, and until when a 429 asks for silence."""
    wrong = [f"call {call['call']} to {call['endpoint']} at {call['began']}: by nobody" for call in look.calls
             if not call["client"]]
    wrong += [f"call {call['call']} to {call['endpoint']} at {call['began']}: a 429 without its instant" for call in look.calls
              if call["answer"] == 429 and call["retry_after"] is None]
    broken = [call for call in look.calls if call["answer"] is not None and call["answer"] >= 500]
    if broken and not any(call["fault"] for call in look.calls):
        wrong.append(f"{len(broken)} calls were answered with 500 or more, and none bears a fault")
    return len(look.calls), wrong


CHECKS = [ends_proved, journals_whole]
