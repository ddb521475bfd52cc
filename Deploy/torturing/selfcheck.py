"""Shows that the auditor can fail: a small healthy world, and one lie at a time that must be found by name."""

import copy

import audit

DAY = 86_400_000
RENEWAL = 40 * DAY


def call(number, id, at, sku, price, applied=True, **other):
    """One Change Subscription Price call of a true clock, 20 ms long."""
    made = {
        "call": number, "endpoint": "changePrice", "at": at, "began": at, "ended": at + 20,
        "subscription": "20000", "id": id, "answer": 200 if applied else 400, "applied": applied,
        "repeated": False, "fault": None, "code": None, "applied_at": at, "client": "P",
        "retry_after": None,
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
        "state": state, "reason": None, "is_ready": True, "send_after": None,
        "due_effective_at": RENEWAL, "next_attempt_at": None, "request_reference_id": request,
        "sent_at": 1000, "consent_asked_at": None, "accepted_at": None, "acceptance": None,
        "effective_at": None, "ended_at": RENEWAL if state in audit.FINAL else None}
    made.update(other)
    return made


def request(id, changes, sku, price, dependents=(), subscription="20000"):
    return {
        "subscription": subscription, "id": id, "change_ids": changes, "state": "answered",
        "attempts": 2, "http_status": 200, "error_code": None, "error_message": None,
        "prepared_at": "then", "settled_at": "then",
        "call": {"items": [{"sku": sku, "price": price, "dependentSKUs": list(dependents)}]}}


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
    look = {**call(5, None, 6000, "", 0), "endpoint": "status", "items": [], "subscription": "30000"}
    other = [item("B", 3000, **asked, increaseStatus="PENDING"), item("C", 1000), item("D", 1000)]
    return {
        "calls": first + second + [look],
        "events": [
            event(5000, "PRICE_CHANGE", other, subscription="30000"),
            event(DAY, "PRICE_INCREASE", [item("A", 1000, **told, increaseStatus="ACCEPTED")]),
            event(2 * DAY, "PRICE_INCREASE", other, subscription="30000"),
            event(RENEWAL, "DID_RENEW", [item("A", 1500)], purchased=RENEWAL),
            event(RENEWAL, "DID_RENEW", [item("D", 1000)], subscription="30000", purchased=RENEWAL)],
        "changes": [
            change("change-1", 2, "A", 1500, "effective", "id-1", effective_at=RENEWAL,
                   acceptance="informed"),
            change("change-2", 3, "B", 9000, "declined", "id-2", subscription="30000",
                   dependents=["C"], forecast_consent="required", consent_asked_at="then")],
        "requests": [
            request("id-1", ["change-1"], "A", 1500),
            request("id-0", ["change-2"], "B", 9000, ["C"], "30000"),
            request("id-2", ["change-2"], "B", 9000, ["C"], "30000")],
        "batches": [{"batch_id": "batch", "name": "spring", "state": "approved", "row_count": 2,
                     "rejected_row_count": 1, "is_paused": False}],
        "rejects": [{"batch_id": "batch", "line": 4, "code": "no_change"}],
        "dependents": [{"subscription": "30000", "change_id": "change-2", "sku": "C",
                        "parent_sku": "B", "cause": "declined", "state": "confirmed", "detail": None}],
        "inbox": [],
        "files": {"spring": [
            {"line": 2, "subscription": "20000", "sku": "A", "price": 1500},
            {"line": 3, "subscription": "30000", "sku": "B", "price": 9000},
            {"line": 4, "subscription": "30000", "sku": "D", "price": 1000}]},
        "absences": [], "outages": [], "stops": [], "stalls": [], "is_real": True,
        "limits": {"changePrice": 3, "status": 3}, "grace": 1000, "end": RENEWAL + 10 * DAY}


# Each lie names the check that must find it.

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


def overlap_with_the_living(world):
    """no_overlap"""
    world["absences"].append({"client": "Q", "why": "kill", "from": 1100, "to": None})
    world["calls"][1].update(began=2500, ended=2600)


def overlap_before_the_lease_ends(world):
    """no_overlap"""
    world["absences"].append({"client": "P", "why": "freeze", "from": 1100, "to": 30_000})
    world["calls"][1].update(began=2500, ended=2600)


def look_that_nobody_heard(world):
    """one_id_an_intent"""
    world["calls"][2].update(answer=None, fault="reset_before", code=None, ended=4510)
    world["calls"].append({
        **call(6, None, 4600, "", 0), "endpoint": "status", "items": [], "subscription": "30000"})
    world["absences"].append({"client": "P", "why": "kill", "from": 4610, "to": None})


def send_without_attempt(world):
    """sends_committed"""
    world["requests"][0]["attempts"] = 1


def zombie(world):
    """zombies_silent"""
    world["absences"].append({"client": "P", "why": "freeze", "from": 2000, "to": 15_000})
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


def decrease_declined(world):
    """ends_equal"""
    for made in world["calls"]:
        made["effects"] = {}


def burst(world):
    """rate_second"""
    world["calls"] += [
        {**call(10 + n, "id-1", 20_000 + n * 333, "A", 1500, repeated=True), "endpoint": "status"}
        for n in range(4)]


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


def other_dependents(world):
    """applied_in_ledger"""
    world["changes"][1]["dependents"] = ["D"]


def effective_too_early(world):
    """ends_equal"""
    world["changes"][0]["effective_at"] = RENEWAL - DAY


def declined_here_effective_there(world):
    """ends_equal"""
    world["events"][-1]["items"].append(item("B", 9000))


def later_than_said(world):
    """dates_equal"""
    world["changes"][0].update(
        state="accepted", ended_at=None, effective_at=None, due_effective_at=RENEWAL + 30 * DAY)
    world["events"].pop(3)


def not_asked(world):
    """verdicts_equal"""
    world["changes"][1]["consent_asked_at"] = None


def informed_not_asked(world):
    """verdicts_equal"""
    world["changes"][0].update(acceptance="consented")


def dependent_forgotten(world):
    """dependents_proved"""
    world["dependents"].pop()


def dependent_still_there(world):
    """dependents_proved"""
    world["events"][-1]["items"].append(item("C", 1000))


def dependent_unproved(world):
    """dependents_proved"""
    world["dependents"][0]["state"] = "discrepancy"


def dependent_of_the_living(world):
    """dependents_proved"""
    world["dependents"].append({**world["dependents"][0], "change_id": "change-1", "sku": "D"})


def notification_set_aside(world):
    """nothing_stuck"""
    world["inbox"].append(
        {"subscription": "20000", "notification_uuid": "n", "error": "not understood"})


LIES = [
    lost_row, row_of_nobody, altered_price, batch_counts_wrong, stuck_row, overdue_row,
    unknown_for_ever, ended_without_reason, applied_twice, two_ids, ids_of_a_clock_set_back,
    new_id_without_proof,
    id_of_nobody, other_words, overlap, overlap_inside, overlap_with_the_living,
    overlap_before_the_lease_ends, look_that_nobody_heard, send_without_attempt, zombie,
    noise_in_the_silence, slow_drain, broken_drain, burst_on_a_pausing_machine, decrease_declined,
    burst, long_burst, never_applied,
    applied_but_rejected, other_dependents, effective_too_early, declined_here_effective_there,
    later_than_said, not_asked, informed_not_asked, dependent_forgotten, dependent_still_there,
    dependent_unproved, dependent_of_the_living, notification_set_aside]


def run(quiet=False):
    """0 when the healthy world passes and every lie is found."""
    problems = [
        f"the healthy world fails {name}: {wrong[0]}"
        for name, _, _, wrong in audit.audit(healthy())[0] if wrong]
    for lie in LIES:
        world = copy.deepcopy(healthy())
        lie(world)
        found = {name for name, _, _, wrong in audit.audit(world)[0] if wrong}
        if lie.__doc__ not in found:
            problems.append(f"{lie.__name__} is not found by {lie.__doc__}, only by {sorted(found)}")
        elif not quiet:
            print(f"{lie.__name__:<32}found by {lie.__doc__}")
    checked = {lie.__doc__ for lie in LIES}
    problems += [
        f"no lie tries {check.__name__}" for check in audit.CHECKS if check.__name__ not in checked]
    for problem in problems:
        print(f"self-check: {problem}")
    if not quiet:
        print(f"{len(LIES)} lies, {len(problems)} problems")
    return 1 if problems else 0
