#!/usr/bin/env python3
"""Plants lies into a sound world, one at a time, and asks the auditor to name each: a check that finds nothing proves
nothing.

    self_check.py WORLD.json
"""
import copy
import json
import pathlib
import re
import sys

from audit import OPEN, Auditor, first_of_month, missing


def first(rows, **wanted):
    """A row with these values; a value may be a function that says whether it fits."""
    for row in rows:
        if all(value(row.get(name)) if callable(value) else row.get(name) == value for name, value in wanted.items()):
            return row
    raise LookupError(f"no row has {list(wanted)}")


def applied(world, endpoint="changePrice"):
    return first(world["store"]["calls"], endpoint=endpoint, applied=True)


def again(world):
    call = copy.deepcopy(applied(world))
    call["requestReferenceId"] = "00000000-0000-4000-8000-000000000000"
    world["store"]["calls"].append(call)


def twice(world):
    call = applied(world)
    other = copy.deepcopy(call)
    other["requestReferenceId"] = "00000000-0000-4000-8000-000000000000"
    world["store"]["calls"].append(other)
    known = copy.deepcopy(first(world["database"]["calls"], call_id=call["requestReferenceId"]))
    known["call_id"] = other["requestReferenceId"]
    world["database"]["calls"].append(known)


def overlap(world):
    begin = next(line for line in world["world"]["wire"] if line["endpoint"] == "changePrice" and "outcome" not in line)
    other = dict(begin, sequence=-1, reference="another")
    world["world"]["wire"].insert(world["world"]["wire"].index(begin) + 1, other)


def another_id(world):
    wire = world["world"]["wire"]
    begin = next(line for line in wire if line["endpoint"] == "changePrice" and "outcome" not in line)
    lost = dict(begin, sequence=-1, reference="lost")
    wire += [lost, dict(lost, outcome="lost"), dict(begin, sequence=-2, reference="x")]


def change(world, **wanted):
    """A row that a person handed in."""
    return first(world["database"]["changes"], undoes=lambda undone: not undone, **wanted)


def undo(world):
    """One that a person asked for, of the item's price before; the price is the lie's."""
    row = change(world)
    other = dict(copy.deepcopy(row), change_id="undo", batch_id="undone", undoes=row["change_id"], price=row["old_price"] + 1)
    world["database"]["changes"].append(other)
    world["world"]["deeds"].append({"at": 0, "kind": f"undo {row['batch_id']}", "subject": "undone", "rows": []})


def paused(world):
    line = first(world["world"]["wire"], endpoint="changePrice", reference=bool)
    world["world"]["deeds"].append({"at": line["at"], "kind": "pause", "subject": "all", "rows": []})


def withdrawn(world):
    batch = change(world, sent_at=bool)["batch_id"]
    world["world"]["deeds"].append({"at": 0, "kind": "withdraw", "subject": batch, "rows": []})


def unnoticed(world):
    row = change(world, state="effective")
    for other in world["database"]["changes"]:
        if (other["id"], other["price"]) == (row["id"], row["price"]):
            other["state"] = "lapsed"
    world["database"]["exceptions"] = []


def unnoticed_before_another(world):
    """The item has a later change, of which the charge is not the old price."""
    unnoticed(world)
    lapsed = [row for row in world["database"]["changes"] if row["state"] == "lapsed" and row["sent_at"]]
    world["database"]["changes"] += [dict(row, change_id=f"later {number}", sent_at=row["sent_at"] + 1, state="aborted",
                                          old_price=row["price"] + 1) for number, row in enumerate(lapsed)]


def charge(world):
    return first(world["database"]["money"], kind="charge")


def forget_open(world):
    """Something that was ordered is to come in the store, and not here."""
    lives = {life["id"]: life for life in world["store"]["subscriptions"]}
    for call in world["store"]["calls"]:
        if call["endpoint"] != "changePrice" or not call["applied"]:
            continue
        life, ordered = lives[call["transactionId"]], json.loads(call["body"])["items"][0]
        for item in life["items"]:
            if item["sku"] == ordered["SKU"] and not item["isLeaving"] and life["isBilledOrWaiting"] and life["autoRenews"]:
                item["newPrice"] = ordered["price"]
                for row in world["database"]["changes"]:
                    if (row["id"], row["sku"]) == (life["id"], item["sku"]):
                        row["state"] = "missed"
                return
    raise LookupError("nothing was ordered of who goes on")


def declined(world):
    row = change(world, state="effective")
    row.update(state="declined", dependent_skus=["B"])


def cross(world):
    life = first(
        world["store"]["subscriptions"], autoRenews=True, isBilledOrWaiting=True, items=bool, renewing=bool, charges=bool)
    row = change(world)
    world["database"]["dependents"].append({
        "id": row["id"], "change_id": row["change_id"], "dependent_sku": life["renewing"][0], "parent_sku": row["sku"],
        "is_cross": True, "target": life["id"], "state": "confirmed", "detail": None,
        # In a period that was running.
        "requested_at": max(charge["from"] for charge in life["charges"])})


def left_open(world):
    cross(world)
    world["database"]["dependents"][-1].update(state="requested", requested_at=0)


def own(world):
    """A dependent of its parent's own subscription that is confirmed as gone, and that the store never let go."""
    changed = {row["id"] for row in world["database"]["changes"]}
    told = {}
    for event in world["store"]["events"]:
        told[event.get("subscription")] = event
    life = first(world["store"]["subscriptions"], autoRenews=True, renewing=bool, id=lambda id: id in changed)
    row = change(world, id=life["id"])
    sku = next(item["sku"] for item in life["items"] if item["sku"] in life["renewing"])
    world["database"]["dependents"].append({
        "id": row["id"], "change_id": row["change_id"], "dependent_sku": sku, "parent_sku": row["sku"], "is_cross": False,
        "target": None, "state": "confirmed", "detail": None, "requested_at": world["store"]["now"]})
    # Since it was asked for, the store has told of it once, and that it renews.
    world["store"]["events"] = [event for event in world["store"]["events"] if event.get("subscription") != life["id"]] + [
        dict(told[life["id"]], at=world["store"]["now"], autoRenews=True, status=1,
             items=[dict(life["items"][0], sku=sku, isLeaving=False)])]


def of_the_declined(world, **values):
    """A dependent of a declined change; that it has its row is another lie's matter."""
    own(world)
    row = world["database"]["dependents"][-1]
    first(world["database"]["changes"], change_id=row["change_id"])["state"] = "declined"
    row.update(**values)


def given_up(world):
    """A person is to look though the item is gone, and was not told of since."""
    own(world)
    row = world["database"]["dependents"][-1]
    row.update(state="discrepancy", detail="charged again", dependent_sku="GONE")


def given_up_elsewhere(world):
    """The customer's other subscription carries nothing else, and the store refused no cancellation."""
    cross(world)
    row = world["database"]["dependents"][-1]
    lives = {life["id"]: life for life in world["store"]["subscriptions"]}
    life = lives[row["target"]]
    life.update(customer=lives[row["id"]]["customer"], renewing=life["renewing"][:1])
    for entry in life["charges"]:
        entry["sku"] = life["renewing"][0]
    world["store"]["events"] = [event for event in world["store"]["events"] if event.get("subscription") != life["id"]]
    row.update(state="discrepancy")


def cancelled_for_another(world):
    """Its target was cancelled before it was asked for, and the customer took that back."""
    cross(world)
    row = world["database"]["dependents"][-1]
    world["store"]["calls"].append(dict(applied(world), endpoint="cancel", transactionId=row["target"],
                                        at=row["requested_at"] - 1, requestReferenceId=world["database"]["calls"][0]["call_id"]))


def never_sent(world, **values):
    row = change(world)
    first(world["database"]["batches"], batch_id=row["batch_id"]).update(state="approved", is_paused=False, halted_by=None)
    row.update(state="queued", send_after=None, is_ready=True, is_held=False, **values)


def mass_left(world):
    world["database"]["masses"].append({"extension_id": "m", "state": "queued", "code": None})


def ended(world, state, **values):
    """A row that was called and took effect ends unsent, and nothing that anybody did or said is a reason."""
    refused = {line.get("reference") for line in world["world"]["wire"] if line.get("outcome") == "refused"}
    refused |= {call.get("requestReferenceId") for call in world["store"]["calls"] if call["status"] >= 400}
    mine = {change for call in world["database"]["calls"] if call["call_id"] in refused for change in call["carries"]}
    decided = {word for deed in world["world"]["deeds"] if deed["kind"].split()[0] in ("withdraw", "undo")
               for word in (deed["subject"], deed["kind"].split()[-1])}
    row = change(world, state="effective", reference=lambda id: id not in refused, change_id=lambda id: id not in mine,
                 batch_id=lambda id: id not in decided)
    row.update(state=state, **values)
    return row


def missed(world):
    """Nothing goes wrong in the last days."""
    now = world["store"]["now"]
    ended(world, "missed", sent_at=None, send_after=None, send_by=now - 86_400_000, wave=0)


def missed_in_a_wave(world):
    """Released long before."""
    now = world["store"]["now"]
    ended(world, "missed", sent_at=None, send_after=now - 30 * 86_400_000, send_by=now - 86_400_000, wave=2)


def refused_row(world, **values):
    """A row that could go, by all that the store says."""
    deed = first(world["world"]["deeds"], kind="batch", subject=bool)
    first(deed["rows"], refusedAs=lambda code: not code).update(**values)


def refused_after_a_downgrade(world, code):
    """Another plan was chosen once, and the renewal at which it began is long over."""
    deed = first(world["world"]["deeds"], kind="batch", subject=bool)
    row = first(deed["rows"], refusedAs=lambda code: not code)
    row.update(refusedAs=code)
    life = first(world["store"]["subscriptions"], id=row["id"])
    life["charges"].append(dict(life["charges"][0], **{"from": deed["at"] - 20 * 86_400_000}))
    world["store"]["events"].append({"subscription": row["id"], "at": deed["at"] - 40 * 86_400_000,
                                     "kind": "DID_CHANGE_RENEWAL_PREF", "subtype": "DOWNGRADE", "uuid": "past"})


def due_at_neither(world):
    """Nobody was told yet, and nobody could know the store's date; but ours is not the one that was planned."""
    row, item = coming(world)
    asked = first(world["database"]["forecasts"], change_id=row["change_id"])["consent"]
    row.update(state="scheduled", due_at=row["planned_at"] + 7 * 86_400_000)
    item.update(increaseStatus="SCHEDULED", needsConsent=not Auditor.SAID.get(asked, False), effectiveAt=row["planned_at"])
    first(world["store"]["subscriptions"], id=row["id"])["extendedAt"] = []


def rows_with_dependents_refused(world):
    """The planner refuses all of a customer's own dependents, which renew."""
    deed = first(world["world"]["deeds"], kind="batch", subject=bool)
    lives = {life["id"]: life for life in world["store"]["subscriptions"]}
    row = first(deed["rows"], refusedAs=lambda code: not code)
    life = lives[row["id"]]
    begun = min(charge["from"] for charge in life["charges"])
    charged = next(charge["sku"] for charge in life["charges"] if charge["from"] == begun)
    life["charges"][0].update(until=deed["at"] + 1)
    world["store"]["events"] = [event for event in world["store"]["events"] if event.get("subscription") != life["id"]]
    row.update(dependents=[charged], refusedAs="dependent_unknown")


def shared_before(world):
    """A month of a batch that shares an item with a later one, before that one was called."""
    auditor = Auditor(world)
    shared, called = auditor.shared_since(), {}
    for row in world["database"]["changes"]:
        called[row["batch_id"]] = max(called.get(row["batch_id"], 0), row["sent_at"] or 0)
    rows = {(row["batch_id"], row["storefront"], row["currency"], row["month"]): row for row in world["database"]["bridge"]}
    months = sorted({row["month"] for row in rows.values()})
    for (batch, storefront, currency, month), row in rows.items():
        following = months[months.index(month) + 1:][:1]
        later = rows.get((batch, storefront, currency, following[0])) if following else None
        since = shared.get((batch, currency))
        if later and since is not None and month > first_of_month(called[batch]) and \
                later["month"] < first_of_month(since):
            later["opening_milliunits"] += 1
            later["closing_milliunits"] += 1
            return
    raise LookupError("no batch that shares an item has two months before")


def all_shared(world):
    """Every batch shares an item from its first call on."""
    rows = [row for row in world["database"]["changes"] if row["sent_at"]]
    world["database"]["changes"] += [
        dict(row, change_id=f"other {number}", batch_id="other") for number, row in enumerate(rows)]


def unexplained(world):
    sent = {(row["id"], row["sku"]): row["sent_at"] for row in world["database"]["changes"] if row["sent_at"]}
    entry = next(entry for entry in world["database"]["money"] if entry["kind"] == "charge"
                 and entry["at"] >= sent.get((entry["id"], entry["sku"]), float("inf")))
    entry["explained_as"] = None
    world["database"]["exceptions"] = [exception for exception in world["database"]["exceptions"]
                                       if exception["transaction"] != entry["transaction"]]


def forget_charge(world):
    entry = charge(world)
    world["database"]["money"] = [other for other in world["database"]["money"]
                                  if (other["transaction"], other["sku"]) != (entry["transaction"], entry["sku"])]


def update(find, **values):
    return lambda world: find(world).update(values)


def accuracy(world, **wanted):
    return first(world["database"]["accuracy"], **wanted)


def late(world):
    """A change that was charged late, of whose reason nothing is said."""
    row = change(world, state="effective")
    first(world["database"]["forecasts"], change_id=row["change_id"]).update(at=0, slip=None)


def without_cause(world):
    """A customer whom the store never extended, by what it says."""
    row = change(world, state="effective")
    world["store"]["events"] = [event for event in world["store"]["events"]
                                if event.get("subscription") != row["id"] or "EXTEN" not in event["kind"]]
    first(world["database"]["forecasts"], change_id=row["change_id"]).update(at=0, slip="extension")


def unasked(world):
    """The store told customers whom it asked, by the report."""
    row = accuracy(world, came_consent="required")
    row["came_consent"] = "not_required"


def extension(world):
    world["database"]["extensions"].append({
        "id": "1", "extension_id": "e", "mass_extension_id": None, "call_id": "c", "days": 1, "state": "extended",
        "effective_at": 0, "code": None})


def broken(world):
    row = dict.fromkeys(world["database"]["bridge"][0], 0) | {"batch_id": "one", "storefront": "USA", "currency": "USD"}
    world["database"]["bridge"] += [
        row | {"month": "2026-05-01", "opening_milliunits": 5, "closing_milliunits": 5},
        row | {"month": "2026-06-01", "opening_milliunits": 6, "closing_milliunits": 6}]


def coming(world):
    """What is open here and to come in the store: the row and the store's item."""
    lives = {life["id"]: life for life in world["store"]["subscriptions"]}
    for row in world["database"]["changes"]:
        for name, item in zip(lives[row["id"]]["renewalNames"], lives[row["id"]]["items"]):
            if row["state"] in OPEN and name == (row["current_sku"] or row["sku"]) and item.get("newPrice") == row["price"]:
                return row, item
    raise LookupError("nothing is to come")


def came_state(world):
    row, item = coming(world)
    item["increaseStatus"] = "ACCEPTED"
    row["state"] = "pending_consent"


def misplanned(world):
    """Nothing had happened that a notification could still have been on its way with."""
    asked = {row["change_id"]: row["consent"] for row in world["database"]["forecasts"]}
    planned = {row["reference"]: row for row in world["database"]["changes"] if row["planned_at"]}
    call = next(call for call in world["store"]["calls"]
                if call["endpoint"] == "changePrice" and call["applied"] and call["requestReferenceId"] in planned
                and any(Auditor.SAID.get(asked.get(planned[call["requestReferenceId"]]["change_id"]), "not known")
                        == item.get("needsConsent") and item.get("effectiveAt")
                        and (item["sku"], item.get("newPrice")) == tuple(
                            planned[call["requestReferenceId"]][key] for key in ("sku", "price"))
                        for item in call["effects"] or ()))
    world["store"]["events"] = [event for event in world["store"]["events"]
                                if event.get("subscription") != call["transactionId"]]
    first(world["database"]["changes"], reference=call["requestReferenceId"])["planned_at"] -= 40 * 86_400_000


def nobody_ordered(world):
    call = applied(world)
    body = json.loads(call["body"])
    body["items"][0]["price"] = 1
    call["body"] = json.dumps(body)


def of_another(world):
    call = applied(world)
    call["transactionId"] = next(life["id"] for life in world["store"]["subscriptions"] if life["id"] != call["transactionId"])


def sent_twice(world):
    doubtful = {change for call in world["database"]["calls"] if call["is_reopened"] or call["is_doubtful"]
                for change in call["carries"]}
    call = first(world["database"]["calls"], kind="price_change", state="answered",
                 carries=lambda carried: carried and not doubtful & set(carried) and all(
                     not row["doubtful_since"] for row in world["database"]["changes"] if row["change_id"] in carried))
    world["database"]["calls"].append(dict(call, call_id="another"))


def cancelled(world):
    row = change(world)
    world["store"]["calls"].append(dict(applied(world), endpoint="cancel", transactionId=row["id"], requestReferenceId="c"))


def explained_twice(world):
    sent = {(row["id"], row["sku"]): row["sent_at"] for row in world["database"]["changes"] if row["state"] == "effective"}
    entry = next(entry for entry in world["database"]["money"] if entry["kind"] == "charge" and entry["explained_as"]
                 and entry["at"] >= sent.get((entry["id"], entry["sku"]), float("inf")))
    exception(world, entry, "other_price")


def exception(world, entry, name):
    world["database"]["exceptions"].append(
        {"id": entry["id"], "transaction": entry["transaction"], "sku": entry["sku"], "exception": name, "change_id": None})


def extend(world, count, **values):
    extension(world)
    world["database"]["extensions"][-1].update(**values)
    world["store"]["calls"] += [dict(applied(world), endpoint="extend", requestReferenceId="e")] * count


def invented(world):
    """A slip of a minute, which is none."""
    row = change(world, state="effective", effective_at=bool)
    first(world["database"]["forecasts"], change_id=row["change_id"]).update(at=row["effective_at"] - 60_000, slip="other")


LIES = [
    ("planned-for-another-date", misplanned),
    ("due-at-another-date", lambda world: coming(world)[0].update(due_at=1)),
    ("due-at-another-date", due_at_neither),
    ("open-at-another-price", lambda world: coming(world)[1].update(newPrice=1)),
    ("state-wrong", came_state),
    ("price-nobody-ordered", nobody_ordered),
    ("call-of-another", of_another),
    ("change-sent-twice", sent_twice),
    ("cancelled-without-cause", cancelled),
    ("charge-explained-twice", explained_twice),
    ("exception-without-cause", lambda world: exception(world, charge(world), "double")),
    ("extended-twice", lambda world: extend(world, 2)),
    ("extended-yet-refused", lambda world: extend(world, 1, state="refused")),
    ("extension-lost", lambda world: world["world"]["deeds"].append(
        {"at": 0, "kind": "extend", "subject": "one lost", "rows": []})),
    ("slip-invented", invented),
    ("row-lost", lambda world: world["database"]["changes"].remove(change(world))),
    ("row-doubled", lambda world: world["database"]["changes"].append(copy.deepcopy(change(world)))),
    ("row-invented", lambda world: world["database"]["changes"].append(
        dict(copy.deepcopy(change(world)), line=999_999, change_id="new"))),
    ("undo-of-another", undo),
    ("row-changed", lambda world: change(world).update(price=1)),
    ("dependents-changed", lambda world: change(world)["dependent_skus"].append("Z")),
    ("batch-miscounted", lambda world: world["database"]["batches"][0].update(row_count=10_000)),
    ("summary-wrong", lambda world: world["database"]["summaries"][0].update(rows_effective=10_000)),
    ("rows-do-not-add-up", lambda world: world["database"]["summaries"][0].update(rows_add_up=False)),
    ("state-unheard-of", lambda world: change(world).update(state="asleep")),
    ("call-nobody-knows", again),
    ("applied-twice", twice),
    ("two-calls-at-a-time", overlap),
    ("another-id-while-unknown", another_id),
    ("sent-while-paused", paused),
    ("sent-though-withdrawn", withdrawn),
    ("truth-without-open", forget_open),
    ("open-without-truth", lambda world: change(world, state="effective").update(state="scheduled", sku="gone",
                                                                                 current_sku="gone")),
    ("effective-uncharged", lambda world: change(world, state="effective").update(price=123_456_000)),
    ("charged-and-unnoticed", unnoticed),
    ("charged-and-unnoticed", unnoticed_before_another),
    ("effective-at-another-date", lambda world: change(world, state="effective").update(effective_at=1)),
    ("dependent-forgotten", declined),
    ("dependent-not-cancelled", cross),
    ("dependent-left-open", left_open),
    ("dependent-not-cancelled", own),
    ("dependent-not-cancelled", cancelled_for_another),
    ("dependent-let-go", lambda world: of_the_declined(world, state="not_needed")),
    ("discrepancy-without-cause", given_up),
    ("discrepancy-without-cause", given_up_elsewhere),
    ("deed-refused", lambda world: first(world["world"]["deeds"], kind="batch").update(subject="", refusal="planted")),
    ("deed-refused", lambda world: first(world["world"]["deeds"], kind="extend").update(refusal="planted")),
    ("deed-refused", lambda world: first(world["world"]["deeds"], kind="approve").update(refusal="planted")),
    ("row-refused", lambda world: refused_row(world, refusedAs="drifted")),
    ("row-refused", rows_with_dependents_refused),
    ("row-refused", lambda world: refused_row(world, refusedAs="already_communicated")),
    ("row-refused", lambda world: refused_after_a_downgrade(world, "unknown_item")),
    ("row-refused", lambda world: refused_after_a_downgrade(world, "item_in_offer")),
    ("row-refused", lambda world: refused_row(world, refusedAs="no_change", price=1)),
    ("ended-without-cause", lambda world: ended(world, "rejected", reason="INVALID_SKU")),
    ("ended-without-cause", lambda world: ended(world, "aborted")),
    ("ended-without-cause", lambda world: ended(world, "ineligible", reason="billing_retry", ended_at=0)),
    ("ended-without-cause", lambda world: ended(world, "ineligible", reason="drifted", ended_at=0)),
    ("ended-without-cause", lambda world: ended(world, "ineligible", reason="nobody_knows")),
    ("ended-without-cause", lambda world: ended(world, "ineligible", reason="already_communicated", undoes="x",
                                                send_by=1, ended_at=0)),
    ("ended-without-cause", missed),
    ("ended-without-cause", missed_in_a_wave),
    ("change-never-sent", never_sent),
    ("change-never-sent", lambda world: never_sent(world) or change(world, state="queued").update(
        send_after=world["store"]["now"] - 3 * 86_400_000)),
    ("extension-left-open", lambda world: extension(world) or world["database"]["extensions"][-1].update(state="queued")),
    ("extension-left-open", mass_left),
    ("bridge-broken", shared_before),
    ("bridge-unseen", all_shared),
    ("extended-without-truth", extension),
    ("call-left-open", lambda world: world["database"]["calls"][0].update(state="unknown")),
    ("change-left-open", lambda world: change(world).update(state="sending")),
    ("subscription-wrong", lambda world: world["database"]["subscriptions"][0].update(expires_at=1)),
    ("subscription-unknown", lambda world: world["database"]["subscriptions"].pop()),
    ("charge-missing", forget_charge),
    ("charge-wrong", lambda world: charge(world).update(amount=1)),
    ("charge-invented", lambda world: world["database"]["money"].append(dict(charge(world), transaction="9"))),
    ("charge-dated-wrong", lambda world: charge(world).update(at=1)),
    ("refund-wrong", lambda world: world["database"]["money"].append(dict(charge(world), kind="refund", amount=-10))),
    ("charge-unexplained", unexplained),
    ("bridge-open", lambda world: world["database"]["bridge"][0].update(closing_milliunits=1)),
    ("slip-unnamed", late),
    ("slip-without-cause", without_cause),
    ("forecast-row-missing", lambda world: world["database"]["accuracy"].remove(accuracy(world, changes=bool))),
    ("forecast-row-invented", unasked),
    ("forecast-miscounted", lambda world: accuracy(world, effective=bool).update(effective_as_forecast=10_000)),
    ("forecast-misjudged", lambda world: accuracy(world, consent_outcome="as_forecast").update(consent_outcome="missed")),
    ("bridge-broken", broken),
    ("failed-in-quiet-times", lambda world: world["world"]["failures"].append("planted")),
]


def names():
    """Every fault that the auditor can name."""
    here = pathlib.Path(__file__).parent
    text = "".join((here / file).read_text(encoding="utf-8") for file in ("audit.py", "forecasts.py", "refusals.py", "unsent.py"))
    return set(re.findall(r"fault(?:s\.append)?\(+\s*\"([a-z-]+)\"", text))


def main():
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    usual = {name for name, _ in Auditor(json.loads(text)).run()}
    missed = [f"the world is not sound: {name}" for name in sorted(usual)]
    missed += [f"{name}: no lie is planted for it" for name in sorted(names() - {name for name, _ in LIES})]
    for name, lie in LIES:
        world = json.loads(text)
        try:
            lie(world)
        except (LookupError, StopIteration) as error:
            missed.append(f"{name}: the world has nothing to lie about: {error!r}")
            continue
        found = {found for found, _ in Auditor(world).run()}
        if name not in found:
            missed.append(f"{name}: not found; found were {sorted(found)}")
    nothing = json.loads(text)
    nothing["store"]["calls"], nothing["world"]["deaths"] = [], 0
    for row in nothing["database"]["changes"]:
        row["state"] = "aborted"
    if len(missing([Auditor(nothing)] * 2)) != 4 or missing([Auditor(nothing), Auditor(json.loads(text))]):
        missed.append("nothing-happened: not found, or found beside a world in which it happened")
    for line in missed:
        print(line)
    print(f"{len(LIES)} lies planted, {len(LIES) - len([m for m in missed if 'sound' not in m])} found by name")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
