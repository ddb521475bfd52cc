"""Shows that the auditor can fail: a small healthy world, and one lie at a time that must be found by name."""

import copy
import hashlib
import hmac
import inspect
import json

import audit

DAY = 86_400_000
RENEWAL = 40 * DAY
# When the declined parent's dependents begin to fall.
FALL = RENEWAL
SECRET = "a shared secret"


def call(number, id, at, sku, price, applied=True, **other):
    """One Change Subscription Price call of a true clock, 20 ms long."""
    made = {
        "call": number, "endpoint": "changePrice", "at": at, "began": at, "ended": at + 20,
        "subscription": "20000", "id": id, "answer": 200 if applied else 400, "applied": applied,
        "repeated": False, "fault": None, "code": None, "applied_at": at, "client": "P", "life": 2,
        "retry_after": None, "body": None,
        "items": [{"sku": sku, "price": price, "dependents": []}] if applied else [],
        "effects": {sku: {"needsConsent": price > 5000}}}
    made.update(other)
    return made


def item(sku, price, **other):
    return {"sku": sku, "price": price, "isLeaving": False, **other}


def event(at, kind, items, subtype=None, subscription="20000", purchased=0, status=1):
    return {
        "uuid": f"{subscription} {at}", "at": at, "kind": kind, "subtype": subtype,
        "subscription": subscription, "status": status, "autoRenews": True,
        "purchasedAt": purchased, "expiresAt": RENEWAL, "items": items}


def change(id, line, sku, price, state, request, **other):
    made = {
        "subscription": "20000", "id": id, "batch_id": "batch", "line": line, "sku": sku,
        "price": price, "dependents": [], "direction": "increase", "forecast_consent": "not_required",
        "forecast_not_known": [], "state": state, "reason": None, "is_ready": True, "send_after": None,
        "due_effective_at": RENEWAL, "next_attempt_at": None, "request_reference_id": request,
        "sent_at": 1000, "consent_asked_at": None, "accepted_at": None, "acceptance": None,
        "effective_at": None, "ended_at": RENEWAL if state in audit.FINAL else None}
    made.update(other)
    return made


def request(id, changes, sku, price, dependents=(), subscription="20000"):
    return {
        "subscription": subscription, "id": id, "change_ids": changes, "state": "answered",
        "attempts": 2, "checks": 0, "fence": 2, "http_status": 200, "error_code": None, "error_message": None,
        "prepared_at": 0, "settled_at": 50_000,
        "call": {"items": [{"sku": sku, "price": price, "dependentSKUs": list(dependents)}]}}


def dependent(change, sku, state, target=None, cancel_id=None):
    return {
        "subscription": "30000", "change_id": change, "sku": sku, "parent_sku": "B", "cause": "declined",
        "state": state, "detail": None, "is_cross_subscription": target is not None, "target": target,
        "cancel_id": cancel_id, "requested_at": FALL, "settled_at": FALL + 6000}


def extension(id, subscription, state, attempts, code=None):
    return {
        "subscription": subscription, "id": id, "mass": None, "days": 7, "reason": 3, "state": state,
        "called_at": 40_000, "attempts": attempts, "settled_at": 48_000, "settled_by": "answer", "code": code,
        "detail": None, "effective_at": None}


def around_calls():
    """A cancellation, resent once; an extension, resent once; one of all, looked at once."""
    def made(number, endpoint, at, subscription="0", id=None, body=None, **other):
        return {**call(number, id, at, "", 0), "endpoint": endpoint, "items": [], "effects": {}, "body": body,
                "subscription": subscription, **other}
    terms = {"extendByDays": 7, "extendReasonCode": 3, "requestIdentifier": "extend-1"}
    all = {"extendByDays": 3, "extendReasonCode": 3, "requestIdentifier": "all-1",
           "storefrontCountryCodes": ["GBR"]}
    return [
        made(20, "cancel", FALL + 1000, "40000", "cancel-1", {}, answer=504, fault="drop_after"),
        made(21, "cancel", FALL + 5000, "40000", "cancel-1", {}, repeated=True),
        made(22, "extend", 40_000, "60000", None, terms, answer=None, fault="reset_after"),
        made(23, "extend", 45_000, "60000", None, terms),
        made(24, "extendAll", 50_000, body=all),
        made(25, "extendStatus", 53_000)]


def webhook(event, at, answer=200):
    body = json.dumps({"id": event["id"], "type": event["type"], "aggregateid": event["subscription"],
                       "position": event["position"], "payload": event["payload"]})
    second = str(at // 1000)
    mac = hmac.new(SECRET.encode(), f"{second}.{body}".encode(), hashlib.sha256).hexdigest()
    return {"at": at, "ended": at + 20, "answer": answer, "body": body, "id": event["id"], "type": event["type"],
            "signature": f"t={second},v1={mac}"}


def outbox():
    """Each dependent asked for and settled; the first webhook comes twice, since its answer was lost."""
    steps = [
        ("C", "requested", None), ("E", "requested", None), ("F", "requested", None), ("C", "confirmed", None),
        ("E", "cancel_sent", "cancel-1"), ("F", "discrepancy", None), ("E", "confirmed", "cancel-1")]
    events = [
        {"subscription": "30000", "position": position, "id": f"event-{position}",
         "type": f"dependent_cancellation.{state}", "written_at": FALL,
         "payload": {"original_transaction_id": "30000", "change_id": "change-2", "dependent_sku": sku,
                     "state": state, "requested_by_evidence": "end", "settled_by_evidence": None,
                     "cancel_reference_id": cancel}}
        for position, (sku, state, cancel) in enumerate(steps)]
    hooks = [webhook(event, FALL + 7000 + 100 * event["position"]) for event in events]
    return {
        "outbox": events, "hooks": [webhook(events[0], FALL + 6900, answer=None), *hooks], "secret": SECRET,
        "deliveries": [{"subscription": "30000", "position": event["position"], "state": "delivered",
                        "attempts": 1, "last_error": None} for event in events]}


def healthy():
    """An announced increase, resent once after a lost answer; a declined one with a dependent; a reject."""
    told = {"newPrice": 1500, "effectiveAt": RENEWAL, "needsConsent": False}
    asked = {"newPrice": 9000, "effectiveAt": RENEWAL, "needsConsent": True}
    first = [
        call(1, "id-1", 1000, "A", 1500, fault="drop_after", answer=504, ended=3000),
        call(2, "id-1", 4000, "A", 1500, repeated=True)]
    second = [
        call(3, "id-0", 4500, "B", 9000, subscription="30000", applied=False, code=4000082),
        call(4, "id-2", 5000, "B", 9000, subscription="30000")]
    second[1]["items"][0]["dependents"] = ["C"]
    # Its first sender died, and the store reads that call only after it has asked for consent.
    second.insert(1, {**copy.deepcopy(second[1]), "call": 26, "began": 4900, "at": 4900, "life": 1, "fault": "slow",
                      "ended": 2 * DAY + 5, "applied_at": 2 * DAY + 5, "repeated": True})
    look = {**call(5, None, 6000, "", 0), "endpoint": "status", "items": [], "subscription": "30000"}
    other = [item("B", 3000, **asked, increaseStatus="PENDING"), item("C", 1000), item("D", 1000)]
    return {
        "calls": first + second + [look, *around_calls()],
        "events": [
            event(5000, "PRICE_CHANGE", other, subscription="30000"),
            event(DAY, "PRICE_INCREASE", [item("A", 1000, **told, increaseStatus="ACCEPTED")]),
            event(2 * DAY, "PRICE_INCREASE", other, subscription="30000"),
            event(RENEWAL, "DID_RENEW", [item("A", 1500)], purchased=RENEWAL),
            event(RENEWAL, "DID_RENEW", [item("D", 1000)], subscription="30000", purchased=RENEWAL),
            {**event(FALL + 1000, "DID_CHANGE_RENEWAL_STATUS", [item("E", 900)], subscription="40000"),
             "autoRenews": False},
            event(40_020, "RENEWAL_EXTENDED", [item("H", 900)], subscription="60000"),
            event(51_000, "RENEWAL_EXTENDED", [item("H", 900)], subscription="60000"),
            event(51_000, "RENEWAL_EXTENSION", [item("I", 900)], "FAILURE", subscription="70000"),
            {"uuid": "summary", "at": 52_000, "kind": "RENEWAL_EXTENSION", "subtype": "SUMMARY",
             "summary": {"requestIdentifier": "ALL-1", "productID": "p", "succeeded": 1, "failed": 1}}],
        "changes": [
            change("change-1", 2, "A", 1500, "effective", "id-1", effective_at=RENEWAL,
                   acceptance="informed"),
            change("change-2", 3, "B", 9000, "declined", "id-2", subscription="30000",
                   dependents=["C", "40000/E", "F"], forecast_consent="required", consent_asked_at="then")],
        "requests": [
            request("id-1", ["change-1"], "A", 1500),
            request("id-0", ["change-2"], "B", 9000, ["C"], "30000"),
            request("id-2", ["change-2"], "B", 9000, ["C"], "30000")],
        "batches": [{"batch_id": "batch", "name": "spring", "state": "approved", "row_count": 2,
                     "rejected_row_count": 1, "is_paused": False}],
        "rejects": [{"batch_id": "batch", "line": 4, "code": "no_change"}],
        "dependents": [dependent("change-2", "C", "confirmed"),
                       dependent("change-2", "40000/E", "confirmed", target="40000", cancel_id="cancel-1"),
                       dependent("change-2", "F", "discrepancy", target="50000")],
        "owners": {
            "20000": {"customer": "ana", "storefront": "USA", "expires": 0, "skus": ["A"]},
            "30000": {"customer": "ben", "storefront": "USA", "expires": 0, "skus": ["B", "C", "D"]},
            "40000": {"customer": "ben", "storefront": "USA", "expires": 0, "skus": ["E"]},
            "50000": {"customer": "ben", "storefront": "USA", "expires": 0, "skus": ["F", "G"]},
            "60000": {"customer": "eva", "storefront": "GBR", "expires": 0, "skus": ["H"]},
            "70000": {"customer": "fay", "storefront": "GBR", "expires": 0, "skus": ["I"]}},
        "cancels": [{"subscription": "40000", "id": "cancel-1", "state": "answered", "attempts": 2, "fence": 2,
                     "prepared_at": FALL + 500, "settled_at": FALL + 6000}],
        **outbox(),
        "extensions": [extension("extend-1", "60000", "extended", 2), extension(
            "extend-2", "70000", "ineligible", 0, code="expired")],
        "asked": {"singles": [
            {"id": "extend-1", "subscription": "60000", "days": 7, "code": 0, "is_taken": True},
            {"id": "extend-2", "subscription": "70000", "days": 7, "code": 0, "is_taken": True},
            {"id": "extend-3", "subscription": "70000", "days": 7, "code": 3, "is_taken": False}],
            "masses": ["all-1"]},
        "masses": [{
            "id": "all-1", "storefronts": ["GBR"], "days": 3, "state": "complete", "submitted_by": "ana",
            "decided_by": "ben", "called_at": 50_000, "attempts": 1, "completed_at": 52_000,
            "status_succeeded": 1, "status_failed": 1, "summary_succeeded": 1, "summary_failed": 1}],
        "attributed": [
            {"subscription": "60000", "id": "extend-1", "is_single": True, "outcome": "extended"},
            {"subscription": "60000", "id": "all-1", "is_single": False, "outcome": "extended"},
            {"subscription": "70000", "id": "all-1", "is_single": False, "outcome": "failed"}],
        "told": {}, "speed": 1, "real_end": RENEWAL + 10 * DAY,
        "inbox": [],
        "files": {"spring": [
            {"line": 2, "subscription": "20000", "sku": "A", "price": 1500, "dependents": []},
            {"line": 3, "subscription": "30000", "sku": "B", "price": 9000,
             "dependents": ["C", "40000/E", "F"]},
            {"line": 4, "subscription": "30000", "sku": "D", "price": 1000, "dependents": []}]},
        # The process before this one died just before a call of this one; and this one stood still for a moment while
        # it waited for a refusal.
        "absences": [
            {"client": "P", "life": 1, "why": "kill", "from": 4060, "to": None},
            {"client": "P", "life": 2, "why": "freeze", "from": 4510, "to": 4600}],
        "outages": [], "stops": [], "stalls": [], "refusals": [0, 0], "is_real": True,
        "limits": {"changePrice": 3, "status": 3, "extendAll+extendStatus": 1}, "grace": 1000, "end": RENEWAL + 10 * DAY}


def lossy():
    """The same, and the database forgot the call of the first change, which goes on by itself."""
    world = healthy()
    lose_the_first_call(world)
    return world


def lose_the_first_call(world, **change):
    world["losses"] = [{"what": "restore", "from": 900, "to": 4400}]
    world["requests"].pop(0)
    world["changes"][0].update(request_reference_id=None, sent_at=None, **change)


# Each lie names the check that must find it.

def forgotten_and_disowned(world):
    """applied_in_ledger"""
    lose_the_first_call(world, state="rejected", reason="4000028")
    world["reconciliation"] = [{"check_name": "another", "problems": 1}]


def forgotten_and_called_anew(world):
    """applied_once"""
    lose_the_first_call(world)
    world["calls"].append(call(40, "id-9", 7000, "A", 1500))
    world["requests"].append(request("id-9", ["change-1"], "A", 1500))


def forgotten_though_made_after_the_loss(world):
    """ids_committed"""
    lose_the_first_call(world)
    world["losses"][0]["to"] = 3900


def forgotten_and_effective_too_early(world):
    """ends_equal"""
    lose_the_first_call(world, effective_at=RENEWAL - 1)


def lost_row(world):
    """rows_accounted"""
    world["changes"].pop()


def row_of_nobody(world):
    """rows_accounted"""
    world["files"]["spring"].pop(0)


def altered_price(world):
    """rows_accounted"""
    world["changes"][0]["price"] = 1510


def batch_counts_wrong(world):
    """states_sum"""
    world["batches"][0]["row_count"] = 3


def stuck_row(world):
    """final_or_waiting"""
    world["changes"][0].update(state="queued", ended_at=None)


def overdue_row(world):
    """final_or_waiting"""
    world["changes"][0].update(state="scheduled", ended_at=None)


def unknown_for_ever(world):
    """final_or_waiting"""
    world["changes"][0].update(state="unknown", ended_at=None)


def ended_without_reason(world):
    """final_or_waiting"""
    world["changes"][0].update(state="missed")


def applied_twice(world):
    """applied_once"""
    world["calls"].append(call(6, "id-3", 8000, "A", 1500))


def held_for_a_living_sender(world):
    """applied_once"""
    world["is_real"] = False
    world["calls"].append(call(6, "id-3", 8000, "A", 1500, fault="slow", ended=22_000, applied_at=22_000))


def held_no_longer_than_a_lease(world):
    """applied_once"""
    world["is_real"] = False
    world["absences"].append({"client": "P", "life": 2, "why": "kill", "from": 9000, "to": None})
    world["calls"].append(call(6, "id-3", 8000, "A", 1500, fault="slow", ended=17_000, applied_at=17_000))


def two_ids(world):
    """one_id_an_intent"""
    world["calls"].append(call(6, "id-3", 8000, "A", 1500, applied=False))
    world["requests"].append(request("id-3", ["change-1"], "A", 1500))


def ids_of_a_clock_set_back(world):
    """one_id_an_intent"""
    two_ids(world)
    world["requests"].reverse()


def new_id_without_proof(world):
    """one_id_an_intent"""
    world["calls"][2].update(answer=None, fault="reset_before", code=None)


def id_of_nobody(world):
    """ids_committed"""
    world["requests"].pop(0)


def other_words(world):
    """ids_committed"""
    world["requests"][0]["call"]["items"][0]["price"] = 1600


def overlap(world):
    """no_overlap"""
    world["calls"][1].update(began=2500, ended=2600)


def overlap_inside(world):
    """no_overlap"""
    world["calls"].append(call(7, "id-1", 1200, "A", 1500, repeated=True))


def overlap_of_an_extension(world):
    """no_overlap"""
    extension_of(world)[1].update(subscription="40000", began=FALL + 5010, ended=FALL + 5020)


def overlap_within_an_extension(world):
    """no_overlap"""
    extension_of(world)[0].update(subscription=world["calls"][0]["subscription"], began=900, ended=1100)


def overlap_with_the_living(world):
    """no_overlap"""
    world["absences"].append({"client": "Q", "life": 2, "why": "kill", "from": 1100, "to": None})
    world["calls"][1].update(began=2500, ended=2600)


def overlap_before_the_lease_ends(world):
    """no_overlap"""
    world["absences"].append({"client": "P", "life": 2, "why": "freeze", "from": 1100, "to": 30_000})
    world["calls"][1].update(began=2500, ended=2600)


def look_that_nobody_heard(world):
    """one_id_an_intent"""
    world["calls"][2].update(answer=None, fault="reset_before", code=None, ended=4510)
    world["calls"].append({
        **call(6, None, 4600, "", 0), "endpoint": "status", "items": [], "subscription": "30000"})
    world["absences"].append({"client": "P", "life": 2, "why": "kill", "from": 4610, "to": None})


def send_without_attempt(world):
    """sends_committed"""
    world["requests"][0]["attempts"] = 1


def zombie(world):
    """zombies_silent"""
    world["absences"].append({"client": "P", "life": 2, "why": "freeze", "from": 2000, "to": 15_000})
    world["calls"][1].update(client="Q")
    world["calls"].append(call(6, "id-1", 15_010, "A", 1500, repeated=True))


def noise_in_the_silence(world):
    """silence_kept"""
    world["calls"] += [
        call(6, "id-1", 20_000, "A", 1500, applied=False, answer=429, retry_after=23_000),
        call(7, "id-1", 22_000, "A", 1500, repeated=True)]


def slow_drain(world):
    """drained"""
    world["stops"].append({"client": "P", "from": 1000, "to": 12_000, "code": 0, "twice": False})


def broken_drain(world):
    """drained"""
    world["stops"].append({"client": "P", "from": 1000, "to": 1500, "code": 1, "twice": False})


def burst_on_a_pausing_machine(world):
    """rate_second"""
    burst(world)
    world["calls"][-1]["at"] -= 800
    world["stalls"].append([20_100, 20_150])


def call_too_many_on_a_pausing_machine(world):
    """rate_second"""
    # Evenly apart but for one between two others, and a pause long enough to make it late.
    world["calls"] += [
        {**call(10 + n, "id-1", at, "A", 1500, repeated=True), "endpoint": "status"}
        for n, at in enumerate([20_000, 20_340, 20_680, 21_020, 21_190, 21_360, 21_700, 22_040])]
    world["stalls"] += [[20_900, 21_185], [20_600, 20_675]]


def decrease_declined(world):
    """ends_equal"""
    for made in world["calls"]:
        made["effects"] = {}


def burst(world):
    """rate_second"""
    world["calls"] += [
        {**call(10 + n, "id-1", 20_000 + n * 300, "A", 1500, repeated=True), "endpoint": "status"}
        for n in range(12)]


def long_burst(world):
    """rate_hour"""
    world["calls"] += [
        {**call(10 + n, "id-1", 30_000 + n * 300, "A", 1500), "endpoint": "status", "items": []}
        for n in range(10_801)]


def never_applied(world):
    """applied_in_ledger"""
    for made in world["calls"][:2]:
        made.update(applied=False, items=[])


def applied_but_rejected(world):
    """applied_in_ledger"""
    world["changes"][0].update(state="rejected", reason="4000028")


def applied_but_aborted(world):
    """applied_in_ledger"""
    # After its client's deadline and the last look.
    for made in world["calls"][:2]:
        made.update(applied_at=200_000, ended=200_000, fault="slow", answer=None)
    world["changes"][0].update(state="aborted", reason="aborted", effective_at=None)


def look_while_the_call_is_on_its_way(world):
    """one_id_an_intent"""
    world["calls"][2].update(answer=None, fault="reset_before", code=None, ended=4510)
    world["calls"].append({
        **call(6, None, 4600, "", 0), "endpoint": "status", "items": [], "subscription": "30000"})


def other_dependents(world):
    """applied_in_ledger"""
    world["changes"][1]["dependents"] = ["D"]


def effective_too_early(world):
    """ends_equal"""
    world["changes"][0]["effective_at"] = RENEWAL - DAY


def declined_here_effective_there(world):
    """ends_equal"""
    world["events"][4]["items"].append(item("B", 9000))


def later_than_said(world):
    """dates_equal"""
    world["changes"][0].update(
        state="accepted", ended_at=None, effective_at=None, due_effective_at=RENEWAL + 30 * DAY)
    world["events"].pop(3)


def later_than_a_consent_not_known_explains(world):
    """dates_equal"""
    later_than_said(world)
    world["is_real"] = False
    # Sixty days' notice would not have been kept either.
    world["changes"][0].update(forecast_consent="not_known", due_effective_at=RENEWAL + 10 * DAY)


def later_than_an_extended_consent_not_known_explains(world):
    """dates_equal"""
    later_than_a_consent_not_known_explains(world)
    # Seven days of the ten are the extension's, and three are nobody's.
    world["owners"]["20000"]["expires"] = RENEWAL - 7 * DAY
    world["events"].insert(0, event(DAY, "RENEWAL_EXTENDED", [item("A", 1000)]))


def sooner_than_a_consent_not_known_explains(world):
    """dates_equal"""
    later_than_a_consent_not_known_explains(world)
    world["changes"][0].update(due_effective_at=RENEWAL - 4 * DAY)


def later_than_another_item_explains_whose_increase_is_open(world):
    """dates_equal"""
    later_than_a_consent_not_known_explains(world)
    # Sixty days' notice was not kept. The other item's increase ended, but only after the call.
    world["changes"][0].update(
        batch_id="00000000-0064-7000-8000-000000000000", forecast_consent="required", due_effective_at=RENEWAL + 40 * DAY)
    sent = world["changes"][0]["sent_at"]
    world["changes"].append({
        **world["changes"][1], "id": "change-3", "subscription": "20000", "sku": "Z", "sent_at": sent - 500,
        "ended_at": sent + 1})


def later_than_a_certain_consent_explains_beside_a_rise_at_that_renewal(world):
    """dates_equal"""
    later_than_another_item_explains_whose_increase_is_open(world)
    # The other item rises at the renewal, but no rule was left open.
    world["changes"][-1].update(ended_at=None, due_effective_at=RENEWAL)


def sooner_than_a_rise_of_another_item_explains(world):
    """dates_equal"""
    later_than_a_consent_not_known_explains(world)
    # The store asks, and the other item rises with this one: until then nobody had to be asked.
    world["changes"][0].update(due_effective_at=RENEWAL - 7 * DAY)
    rise = {"effectiveAt": RENEWAL, "needsConsent": False}
    world["calls"][0]["effects"] = {"A": {"effectiveAt": RENEWAL, "needsConsent": True}, "B": rise}


def later_than_an_extended_month_explains(world):
    """dates_equal"""
    later_than_said(world)
    world["is_real"] = False
    # Another month, and the ledger's day is the later one.
    world["changes"][0].update(due_effective_at=RENEWAL + 33 * DAY)
    world["events"].insert(0, event(DAY, "RENEWAL_EXTENDED", [item("A", 1000)]))


def later_than_the_subscriber_was_told(world):
    """dates_equal"""
    later_than_said(world)
    world["is_real"] = False
    # The last instant for the store's renewal lies between effect and intent; but the subscriber is told of that renewal.
    world["changes"][0].update(sent_at=RENEWAL - 27 * DAY + 1000)


def later_than_an_extension_explains(world):
    """dates_equal"""
    later_than_said(world)
    world["owners"]["20000"]["expires"] = RENEWAL - 7 * DAY
    world["events"].insert(0, event(500, "RENEWAL_EXTENDED", [item("A", 1000)]))


def not_asked(world):
    """verdicts_equal"""
    world["changes"][1]["consent_asked_at"] = None


def informed_not_asked(world):
    """verdicts_equal"""
    world["changes"][0].update(acceptance="consented")


def dependent_forgotten(world):
    """dependents_proved"""
    world["dependents"].pop(0)


def dependent_still_there(world):
    """dependents_proved"""
    world["events"][4]["items"].append(item("C", 1000))


def dependent_unproved(world):
    """dependents_proved"""
    world["dependents"][0]["state"] = "discrepancy"


def dependent_let_go(world):
    """dependents_proved"""
    world["dependents"][0]["state"] = "not_needed"


def dependent_of_the_living(world):
    """dependents_proved"""
    world["dependents"].append({**world["dependents"][0], "change_id": "change-1", "sku": "D"})


def notification_set_aside(world):
    """nothing_stuck"""
    world["inbox"].append(
        {"subscription": "20000", "notification_uuid": "n", "error": "not understood"})


def pause_of_nobody(world):
    """final_or_waiting"""
    world["changes"][0].update(state="queued", ended_at=None)
    world["batches"][0]["is_paused"] = True


def refusal_that_nobody_heard(world):
    """one_id_an_intent"""
    world["absences"].append({"client": "P", "life": 2, "why": "kill", "from": 4510, "to": None})


def refusal_read_past_the_lease(world):
    """one_id_an_intent"""
    world["absences"][1]["to"] = 16_000


def refusal_read_after_the_next_call(world):
    """one_id_an_intent"""
    world["absences"][1]["to"] = 5100


def refusal_of_a_call_read_late(world):
    """one_id_an_intent"""
    world["calls"][2]["life"] = 1


def refusal_of_a_retry_believed(world):
    """one_id_an_intent"""
    world["calls"][2].update(answer=None, fault="reset_before", code=None, ended=4510)
    world["calls"].append(call(
        6, "id-0", 4700, "B", 9000, subscription="30000", applied=False, code=4000205))


def token_refused_for_ever(world):
    """sends_committed"""
    world["requests"][0]["attempts"] = 1
    world["calls"][1].update(answer=401)


def overlap_after_short_outages(world):
    """no_overlap"""
    world["calls"][0]["ended"] = 13_000
    world["calls"][1].update(began=12_000, ended=12_500, at=12_000)
    world["outages"] += [[1500, 3500], [7500, 9500]]


def broken_drain_without_a_call(world):
    """drained"""
    world["stops"].append({"client": "P", "from": 100_000, "to": 109_900, "code": 1, "twice": False})


def crash_at_a_second_signal(world):
    """drained"""
    world["stops"].append({"client": "P", "from": 1000, "to": 1500, "code": -11, "twice": True})


def known_and_not_folded(world):
    """ends_equal"""
    world["changes"][0].update(state="accepted", ended_at=None, effective_at=None)
    world["end"] = RENEWAL + 500
    world["told"] = {event["uuid"]: event["at"] for event in world["events"]}


def cancel_of(world, subscription):
    for made in world["calls"]:
        if made["endpoint"] == "cancel":
            made["subscription"] = subscription
    world["cancels"][0]["subscription"] = subscription


def cancelled_with_company(world):
    """cancelled_once"""
    cancel_of(world, "50000")


def cancelled_another_customers(world):
    """cancelled_once"""
    world["owners"]["40000"]["customer"] = "eva"


def cancelled_before_the_fall(world):
    """cancelled_once"""
    for made in world["calls"]:
        if made["endpoint"] == "cancel":
            made.update(at=made["at"] - DAY, applied_at=made["at"] - DAY)


def cancelled_without_cause(world):
    """cancelled_once"""
    cancel_of(world, "60000")


def cancelled_twice(world):
    """cancelled_once"""
    world["calls"][-5].update(id="cancel-2", repeated=False)
    world["cancels"].append({**world["cancels"][0], "id": "cancel-2"})


def cancelled_anew_without_a_look(world):
    """cancelled_once"""
    first, second = [made for made in world["calls"] if made["endpoint"] == "cancel"]
    first.update(applied=False, answer=None, fault="reset_before")
    second.update(id="cancel-2", repeated=False)
    world["cancels"].append({**world["cancels"][0], "id": "cancel-2"})


def cancel_unstored(world):
    """cancelled_once"""
    world["cancels"].clear()


def cancel_without_attempt(world):
    """cancelled_once"""
    world["cancels"][0]["attempts"] = 1


def elsewhere_forgotten(world):
    """elsewhere_settled"""
    world["dependents"].pop(1)


def elsewhere_still_charged(world):
    """elsewhere_settled"""
    world["events"] = [event for event in world["events"] if event.get("subscription") != "40000"]


def given_up_though_alone(world):
    """elsewhere_settled"""
    world["owners"]["50000"]["skus"] = ["F"]


def elsewhere_still_requested(world):
    """elsewhere_settled"""
    world["dependents"][2]["state"] = "requested"


def elsewhere_spared(world):
    """elsewhere_settled"""
    world["dependents"][1]["state"] = "not_needed"


def elsewhere_of_the_living(world):
    """elsewhere_settled"""
    world["dependents"].append(dependent("change-1", "60000/H", "requested", target="60000"))


def event_forgotten(world):
    """events_whole"""
    world["outbox"].pop()


def event_of_no_step(world):
    """events_whole"""
    world["outbox"].append({
        **world["outbox"][-1], "id": "event-x", "position": 99,
        "payload": {**world["outbox"][-1]["payload"], "dependent_sku": "Z"}})


def event_told_twice(world):
    """events_whole"""
    world["outbox"].append({**world["outbox"][-1], "id": "event-x", "position": 99})


def hook_never_taken(world):
    """webhooks_delivered"""
    world["hooks"][3]["answer"] = 500


def hook_given_up(world):
    """webhooks_delivered"""
    world["deliveries"][2]["state"] = "given_up"


def hook_invented(world):
    """webhooks_true"""
    world["hooks"].append(webhook({**world["outbox"][0], "id": "event-x"}, FALL + 9000))


def hook_altered(world):
    """webhooks_true"""
    world["hooks"][2]["body"] = world["hooks"][2]["body"].replace("requested", "confirmed")


def hook_forged(world):
    """webhooks_signed"""
    world["hooks"][2]["signature"] = world["hooks"][3]["signature"]


def hook_stale(world):
    """webhooks_signed"""
    world["hooks"][2]["at"] += 400_000


def hook_out_of_order(world):
    """webhooks_in_order"""
    world["hooks"][4].update(at=FALL + 6950, ended=FALL + 6960)


def hook_before_the_answer(world):
    """webhooks_in_order"""
    world["hooks"][1]["ended"] = world["hooks"][2]["at"] + 5


def extension_of(world):
    return [made for made in world["calls"] if made["endpoint"] == "extend"]


def extended_unasked(world):
    """extended_once"""
    extension_of(world)[1]["body"] = {
        "extendByDays": 7, "extendReasonCode": 3, "requestIdentifier": "extend-9"}


def extended_twice(world):
    """extended_once"""
    for at in (41_000, 42_000):
        world["events"].append(event(at, "RENEWAL_EXTENDED", [item("H", 900)], subscription="60000"))


def extended_by_other_days(world):
    """extended_once"""
    world["extensions"][0]["days"] = 8
    world["asked"]["singles"][0]["days"] = 8


def extended_and_refused(world):
    """extended_once"""
    world["extensions"][0].update(state="refused", code="4030004")


def extended_without_attempt(world):
    """extended_once"""
    world["extensions"][0]["attempts"] = 1


def extension_lost(world):
    """extensions_settled"""
    world["extensions"].pop(1)


def extension_of_a_refused_wish(world):
    """extensions_settled"""
    world["extensions"].append(extension("extend-3", "70000", "ineligible", 0, code="expired"))


def extension_stuck(world):
    """extensions_settled"""
    world["extensions"][1]["state"] = "sending"


def extension_claimed(world):
    """extensions_settled"""
    world["extensions"][1]["state"] = "extended"


def all_unapproved(world):
    """mass_once"""
    world["masses"][0]["decided_by"] = "ana"


def all_summary_off(world):
    """mass_once"""
    world["masses"][0]["summary_failed"] = 2


def all_status_off(world):
    """mass_once"""
    world["masses"][0]["status_succeeded"] = 2


def all_not_told_one_by_one(world):
    """mass_once"""
    world["attributed"].pop()


def all_in_other_storefronts(world):
    """mass_once"""
    world["masses"][0]["storefronts"] = None


def all_at_work_for_ever(world):
    """mass_once"""
    world["masses"][0]["state"] = "running"


def all_looked_at_too_often(world):
    """rate_second"""
    world["calls"].append({**world["calls"][-1], "call": 30, "at": 53_500})


def left_by_the_dead(world):
    """taken_over"""
    world["absences"].append({"client": "P", "life": 2, "why": "kill", "from": 2000, "to": None})
    world["calls"][1].update(at=33_000, began=33_000, ended=33_020)


def left_while_nobody_read_the_history(world):
    """taken_over"""
    # Calls wait for it, says the database, and nobody asks for it.
    extension_left_by_the_dead(world)
    world["holds"] = [[41_000, 94_000]]


def left_while_the_history_was_read_without_end(world):
    """taken_over"""
    left_while_nobody_read_the_history(world)
    extension_of(world)[1].update(began=395_000, ended=395_020)
    world["extensions"][0]["settled_at"] = 395_020
    world["holds"] = [[41_000, 394_000]]
    world["calls"] += pages_of_the_history(36)


def left_long_after_all_were_refused(world):
    """taken_over"""
    extension_left_by_the_dead(world)
    world["alike"] = [[41_000, 60_000]]


def left_while_all_were_refused_without_end(world):
    """taken_over"""
    extension_left_by_the_dead(world)
    extension_of(world)[1].update(began=295_000, ended=295_020)
    world["extensions"][0]["settled_at"] = 295_020
    world["alike"] = [[41_000, None]]


def pages_of_the_history(count):
    return [{**call(60 + n, f"page-{n}", 42_000 + 9000 * n, "A", 1500, answer=200), "endpoint": "history",
             "applied": False} for n in range(count)]


def cancel_left_by_the_dead(world):
    """taken_over"""
    world["absences"].append({"client": "P", "life": 2, "why": "kill", "from": FALL + 1010, "to": None})
    made = [made for made in world["calls"] if made["endpoint"] == "cancel"][1]
    made.update(began=FALL + 40_000, ended=FALL + 40_020)
    world["cancels"][0]["settled_at"] = FALL + 40_020


def extension_left_by_the_dead(world):
    """taken_over"""
    world["absences"].append({"client": "P", "life": 2, "why": "kill", "from": 40_010, "to": None})
    extension_of(world)[1].update(began=95_000, ended=95_020)
    world["extensions"][0]["settled_at"] = 95_020


def mass_left_by_the_dead(world):
    """taken_over"""
    world["absences"].append({"client": "P", "life": 2, "why": "kill", "from": 50_010, "to": None})
    made = {made["endpoint"]: made for made in world["calls"] if made["endpoint"] in ("extendAll", "extendStatus")}
    made["extendStatus"].update(at=95_000, began=95_000, ended=95_020)
    # The summary bears its own date, and was heard late.
    world["masses"][0]["completed_at"] = 50_005
    for event in world["events"]:
        if event.get("summary"):
            event["at"] = 50_005
            world["told"][event["uuid"]] = 95_020


def left_beside_other_deaths(world):
    """taken_over"""
    left_by_the_dead(world)
    world["absences"] += [{"client": "Q", "life": 2, "why": "kill", "from": 3000 + 1000 * n, "to": None} for n in range(9)]


def ended_by_what_all_meet(world):
    """refusals_few"""
    world["calls"][0]["fault"] = "refuse"
    world["changes"][0].update(state="rejected", reason="4030010")


def ended_row(world, state, reason, **other):
    """A third row, of which the store never took anything, and that ended for this reason."""
    world["files"]["spring"].append({"line": 9, "subscription": "60000", "sku": "H", "price": 950,
                                     "dependents": other.get("dependents", [])})
    world["batches"][0]["row_count"] += 1
    world["changes"].append(change(
        "change-9", 9, "H", 950, state, None, **{"subscription": "60000", "reason": reason, "sent_at": None,
                                                 "ended_at": 30_000, **other}))
    world["owners"]["60000"]["expires"] = RENEWAL


def refused_by_nobody(world):
    """ends_proved"""
    ended_row(world, "rejected", "500 GeneralInternalError")


def refused_by_a_lost_answer(world):
    """ends_proved"""
    ended_row(world, "rejected", "500 GeneralInternalError", request_reference_id="id-9")
    world["requests"].append(request("id-9", ["change-9"], "H", 950, subscription="60000"))
    world["calls"].append(call(40, "id-9", 20_000, "H", 950, subscription="60000", applied=False, answer=500))


def refused_with_another_code(world):
    """ends_proved"""
    refused_rightly(world)
    world["changes"][-1]["reason"] = "4000028 InvalidPriceError"


def refused_unheard(world):
    """ends_proved"""
    refused_rightly(world)
    world["absences"].append({"client": "P", "life": 2, "why": "kill", "from": 20_010, "to": None})


def drifted_from_nothing(world):
    """ends_proved"""
    ended_row(world, "ineligible", "drifted")


def ineligible_though_it_renews(world):
    """ends_proved"""
    ended_row(world, "ineligible", "auto_renew_off")


def ineligible_though_paid(world):
    """ends_proved"""
    ended_row(world, "ineligible", "billing_retry")


def ineligible_though_carried(world):
    """ends_proved"""
    ended_row(world, "ineligible", "unknown_item")


def dependent_unknown_though_it_renews(world):
    """ends_proved"""
    ended_row(world, "ineligible", "dependent_unknown", dependents=["70000/I"])
    world["owners"]["70000"]["expires"] = RENEWAL


def missed_while_active(world):
    """ends_proved"""
    ended_row(world, "missed", "not_active")


def ended_for_no_known_reason(world):
    """ends_proved"""
    for _ in range(6):
        ended_row(world, "ineligible", "weather")


def called_by_nobody(world):
    """journals_whole"""
    world["calls"][0]["client"] = ""


def silence_without_end(world):
    """journals_whole"""
    world["calls"].append(call(40, "id-1", 20_000, "A", 1500, applied=False, answer=429))


def faults_unnamed(world):
    """journals_whole"""
    for made in world["calls"]:
        made["fault"] = None


def leave_out(world, position):
    """An event that was never written, nor sent."""
    for key in ("outbox", "deliveries"):
        world[key] = [entry for entry in world[key] if entry["position"] != position]
    world["hooks"] = [hook for hook in world["hooks"] if hook["id"] != f"event-{position}"]


def event_of_the_request_untold(world):
    """events_whole"""
    leave_out(world, 1)


def event_of_the_call_untold(world):
    """events_whole"""
    leave_out(world, 4)


def own_event_of_the_request_untold(world):
    """events_whole"""
    world["outbox"][0]["payload"]["state"] = "cancel_sent"
    world["outbox"][0]["type"] = "dependent_cancellation.cancel_sent"


def own_proved_at_once(world, evidence):
    """A dependent of the parent's own subscription, whose first event says that a statement proves its end."""
    world["outbox"][0]["payload"].update(state="confirmed", settled_by_evidence=evidence)
    world["outbox"][0]["type"] = "dependent_cancellation.confirmed"
    world["outbox"][3]["payload"]["state"] = "discrepancy"
    world["outbox"][3]["type"] = "dependent_cancellation.discrepancy"
    next(entry for entry in world["dependents"] if entry["sku"] == "C")["state"] = "discrepancy"
    told = {event["id"]: event for event in world["outbox"]}
    world["hooks"] = [webhook(told[hook["id"]], hook["at"], hook["answer"]) for hook in world["hooks"]]


def own_proved_by_another_statement(world):
    """events_whole"""
    own_proved_at_once(world, "later")


def disowned_and_told_once(world):
    """applied_in_ledger"""
    lose_the_first_call(world, state="rejected", reason="4000028")
    world["calls"].append(call(40, "id-9", 2000, "A", 1510))
    world["reconciliation"] = [{"check_name": "ended_yet_applied", "problems": 1}]


# Rows that ended as they must: nothing may be said of them.

def refused_rightly(world):
    ended_row(world, "rejected", "4000045 InvalidRequest", request_reference_id="id-9")
    world["requests"].append(request("id-9", ["change-9"], "H", 950, subscription="60000"))
    world["calls"].append(call(40, "id-9", 20_000, "H", 950, subscription="60000", applied=False, code=4000045))


def ended_rightly(state, reason, **told):
    def make():
        world = healthy()
        ended_row(world, state, reason, dependents=["60000/Z"] if reason == "dependent_unknown" else [])
        world["events"].append({**event(29_000, "DID_CHANGE_RENEWAL_STATUS", [item("H", 900)], subscription="60000"), **told})
        world["events"].sort(key=lambda event: event["at"])
        return world
    make.__name__ = f"{state} {reason}"
    return make


def refused():
    """The same, and a row that the store refused."""
    world = healthy()
    refused_rightly(world)
    return world


def history_read_first():
    """What a dead replica left waits until the history is read, which others die of, too."""
    world = copy.deepcopy(healthy())
    left_while_nobody_read_the_history(world)
    # It was the last one of this process.
    extension_of(world)[0]["life"] = world["absences"][-1]["life"] = 7
    world["calls"] += pages_of_the_history(6)
    return world


def left_while_all_were_refused():
    world = copy.deepcopy(healthy())
    extension_left_by_the_dead(world)
    # It was the last one of this process.
    extension_of(world)[0]["life"] = world["absences"][-1]["life"] = 7
    world["alike"] = [[41_000, 75_000]]
    return world


def proved_at_once():
    """One statement ends the parent and its dependent, and a later one says otherwise; nobody has had the time to mend it."""
    world = copy.deepcopy(healthy())
    world["grace"] = world["end"]
    own_proved_at_once(world, "end")
    return world


SOUND = [
    healthy, lossy, proved_at_once, history_read_first, left_while_all_were_refused, refused, ended_rightly("ineligible", "auto_renew_off", autoRenews=False),
    ended_rightly("ineligible", "billing_retry", status=3), ended_rightly("missed", "not_active", status=2),
    ended_rightly("ineligible", "unknown_item", items=[item("Z", 900)]),
    ended_rightly("ineligible", "dependent_unknown", subscription="60000"),
    ended_rightly("ineligible", "drifted", items=[item("H", 800)])]


def told_lies():
    """Every function above that takes a world and names a check."""
    for made in list(globals().values()):
        if inspect.isfunction(made) and list(inspect.signature(made).parameters) == ["world"] and made.__doc__:
            yield made


LIES = list(told_lies())


def run(busy, blind, quiet=False):
    """0 when the healthy world passes and every lie is found, and a check of the busy ones that looked at nothing."""
    problems = [
        f"the healthy world, {made.__name__}, fails {name}: {wrong[0]}"
        for made in SOUND for name, _, _, wrong in audit.audit(made())[0] if wrong]
    for lie in LIES:
        world = copy.deepcopy(healthy())
        lie(world)
        found = {name for name, _, _, wrong in audit.audit(world)[0] if wrong}
        if lie.__doc__ not in found:
            problems.append(f"{lie.__name__} is not found by {lie.__doc__}, only by {sorted(found)}")
        elif not quiet:
            print(f"{lie.__name__:<32}found by {lie.__doc__}")
    for name in sorted(busy):
        totals = {other: [int(other != name), []] for other in busy}
        if blind(totals, busy) != [name]:
            problems.append(f"{name} may look at nothing")
    checked = {lie.__doc__ for lie in LIES}
    problems += [
        f"no lie tries {check.__name__}" for check in audit.CHECKS if check.__name__ not in checked]
    for problem in problems:
        print(f"self-check: {problem}")
    if not quiet:
        print(f"{len(LIES)} lies, {len(problems)} problems")
    return 1 if problems else 0
