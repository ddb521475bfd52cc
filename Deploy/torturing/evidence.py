"""What the auditor reads: the App Store's journals, the submitted files, the tables. Plain values, no judgement."""

import csv
import datetime
import json

OPEN_STATES = {
    "awaiting_approval", "queued", "sending", "unknown", "scheduled", "pending_consent", "accepted"}


def lines(path):
    """The whole lines of a journal."""
    found = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.strip():
                found.append(json.loads(line))
    return found


def instant(text):
    """UTC milliseconds of an instant as PostgreSQL's JSON writes it."""
    if text is None:
        return None
    moment = datetime.datetime.fromisoformat(text)
    return round(moment.timestamp() * 1000)


def subscription_of(transaction):
    """The transactions of one subscription of this store differ in their last four digits."""
    return str(int(transaction) // 10000 * 10000)


def milliunits(text):
    """`12.99` or `1500` as thousandths."""
    whole, _, rest = text.partition(".")
    return int(whole) * 1000 + int((rest + "000")[:3])


def calls_of(wire, journal):
    """Calls as the wire saw them, with what the store made of each; in the order of arrival."""
    calls = {}
    for edge in wire:
        if edge["edge"] == "began":
            calls[edge["call"]] = {
                "call": edge["call"], "endpoint": edge["endpoint"], "at": edge["at"],
                "began": edge["realAt"], "ended": None,
                "subscription": subscription_of(edge["transactionId"] or "0"),
                "client": (edge.get("keyId") or "")[-1:], "retry_after": None,
                "id": edge.get("requestReferenceId"), "answer": None, "applied": False,
                "repeated": False, "fault": None, "code": None, "items": [], "effects": {}}
        else:
            calls[edge["call"]]["ended"] = edge["realAt"]
            calls[edge["call"]]["answer"] = edge.get("status")
            calls[edge["call"]]["retry_after"] = edge.get("retryAfter")
    for record in journal:
        call = calls.get(record.get("call"))
        if call is None:
            continue
        call["applied"] = record["applied"]
        call["repeated"] = record["repeated"]
        call["fault"] = record.get("fault")
        call["code"] = record.get("errorCode")
        call["applied_at"] = record["at"]
        if record.get("body"):
            call["items"] = [
                {"sku": item["SKU"], "price": item["price"],
                 "dependents": sorted(item.get("dependentSKUs") or [])}
                for item in json.loads(record["body"]).get("items", [])]
        for effect in record.get("effects") or []:
            if "newPrice" in effect:
                call["effects"][effect["sku"]] = effect
    return [calls[number] for number in sorted(calls)]


def file_rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        return [
            {"line": reader.line_num, "subscription": row["original_transaction_id"],
             "sku": row["sku"], "price": milliunits(row["price"])} for row in reader]


CHANGES = """SELECT original_transaction_id AS subscription, change_id AS id, batch_id, line, sku,
    new_price_milliunits AS price, dependent_skus AS dependents, direction, forecast_consent,
    state, reason, is_ready, send_after, due_effective_at, next_attempt_at, request_reference_id,
    sent_at, consent_asked_at, accepted_at, acceptance, effective_at, ended_at
    FROM repricer.price_changes ORDER BY batch_id, line"""
REQUESTS = """SELECT original_transaction_id AS subscription, request_reference_id AS id, change_ids,
    call, state, attempts, http_status, error_code, error_message, prepared_at, settled_at
    FROM repricer.price_change_requests ORDER BY prepared_at, request_reference_id"""
BATCHES = """SELECT batch_id, name, state, row_count, rejected_row_count, is_paused
    FROM repricer.batches ORDER BY submitted_at"""
REJECTS = "SELECT batch_id, line, code FROM repricer.batch_rejects"
DEPENDENTS = """SELECT original_transaction_id AS subscription, change_id, dependent_sku AS sku, parent_sku,
    cause, state, detail FROM repricer.dependent_cancellations"""
INBOX = "SELECT original_transaction_id AS subscription, notification_uuid, error FROM repricer.inbox"


def gather(world, trouble):
    """The evidence of a world whose store has stopped writing."""
    folder, cluster = world.store.folder, world.cluster
    changes = cluster.rows(CHANGES)
    for change in changes:
        for key in ("sent_at", "send_after", "due_effective_at", "next_attempt_at", "effective_at", "ended_at"):
            change[key] = instant(change[key])
    return {
        "calls": calls_of(lines(f"{folder}/wire.ndjson"), lines(f"{folder}/calls.ndjson")),
        "events": lines(f"{folder}/events.ndjson"),
        "changes": changes,
        "requests": cluster.rows(REQUESTS),
        "batches": cluster.rows(BATCHES),
        "rejects": cluster.rows(REJECTS),
        "dependents": cluster.rows(DEPENDENTS),
        "inbox": cluster.rows(INBOX),
        "files": {name: file_rows(path) for name, path in world.submitted},
        "limits": world.plan.limits,
        "absences": trouble.absences,
        "outages": trouble.outages,
        "stops": trouble.stops,
        "stalls": world.pulse.stalls(),
        # Whether the store's clock is the machine's: then instants of both compare.
        "is_real": world.plan.kind == "test",
        "grace": world.plan.grace,
        "end": world.ended_at,
    }
