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
    """The transactions of one subscription of this store differ in their last four digits; "0" for none."""
    return str(int(transaction) // 10000 * 10000) if (transaction or "").isdigit() else "0"


def milliunits(text):
    """`12.99` or `1500` as thousandths."""
    whole, _, rest = text.partition(".")
    return int(whole) * 1000 + int((rest + "000")[:3])


def caller(key_id):
    """Which replica called and which of its processes, as world.py puts both into the key's name."""
    return {"client": key_id[-4:-3], "life": int(key_id[-3:]) if key_id[-3:].isdigit() else 0}


def calls_of(wire, journal):
    """Calls as the wire saw them, with what the store made of each; in the order of arrival."""
    calls = {}
    for edge in wire:
        if edge["edge"] == "began":
            calls[edge["call"]] = {
                "call": edge["call"], "endpoint": edge["endpoint"], "at": edge["at"],
                "began": edge["realAt"], "ended": None,
                "subscription": subscription_of(edge["transactionId"]),
                **caller(edge.get("keyId") or ""), "retry_after": None,
                "id": edge.get("requestReferenceId"), "answer": None, "applied": False,
                "repeated": False, "fault": None, "code": None, "items": [], "effects": {},
                "applied_at": None, "body": None}
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
            call["body"] = json.loads(record["body"])
            call["items"] = [
                {"sku": item["SKU"], "price": item["price"],
                 "dependents": sorted(item.get("dependentSKUs") or [])}
                for item in call["body"].get("items", [])]
        for effect in record.get("effects") or []:
            if "newPrice" in effect:
                call["effects"][effect["sku"]] = effect
    return [calls[number] for number in sorted(calls)]


def file_rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        return [
            {"line": reader.line_num, "subscription": row["original_transaction_id"],
             "sku": row["sku"], "price": milliunits(row["price"]),
             "dependents": [sku for sku in row["dependent_skus"].split(";") if sku]}
            for row in reader]


def owners(path):
    """Whose each subscription of the store is, and what it carried when the world began."""
    with open(path, encoding="utf-8") as file:
        found = json.load(file)["subscriptions"]
    return {
        str(one["originalTransactionID"]): {
            "customer": one["appAccountToken"], "storefront": one["storefront"],
            "expires": one["expiresAt"], "skus": [item["sku"] for item in one["items"]]}
        for one in found}


CHANGES = """SELECT original_transaction_id AS subscription, change_id AS id, batch_id, line, sku,
    new_price_milliunits AS price, dependent_skus AS dependents, direction, forecast_consent,
    forecast_not_known, state, reason, is_ready, send_after, due_effective_at, next_attempt_at, request_reference_id,
    sent_at, consent_asked_at, accepted_at, acceptance, effective_at, ended_at
    FROM repricer.price_changes ORDER BY batch_id, line"""
REQUESTS = """SELECT subject AS subscription, call_id AS id, carries AS change_ids,
    intent AS call, state, attempts, checks, fence, http_status, error_code, error_message, prepared_at, settled_at
    FROM repricer.store_calls WHERE kind = 'price_change' ORDER BY prepared_at, call_id"""
BATCHES = """SELECT batch_id, name, state, row_count, rejected_row_count, is_paused
    FROM repricer.batches ORDER BY submitted_at"""
REJECTS = "SELECT batch_id, line, code FROM repricer.batch_rejects"
DEPENDENTS = """SELECT original_transaction_id AS subscription, change_id, dependent_sku AS sku, parent_sku,
    cause, state, detail, is_cross_subscription, target_transaction_id AS target, cancel_reference_id AS cancel_id,
    requested_at, settled_at FROM repricer.dependent_cancellations"""
CANCELS = """SELECT subject AS subscription, call_id AS id, state, attempts, fence,
    prepared_at, settled_at FROM repricer.store_calls WHERE kind = 'cancel'"""
EXTENSIONS = """SELECT original_transaction_id AS subscription, extension_id AS id, mass_extension_id AS mass,
    extend_by_days AS days, reason_code AS reason, state, called_at,
    (SELECT coalesce(sum(c.attempts), 0) FROM repricer.store_calls c
        WHERE c.subject = r.original_transaction_id AND r.extension_id = ANY (c.carries)) AS attempts,
    settled_at, settled_by, code, detail, effective_at FROM repricer.extension_requests r"""
MASSES = """SELECT extension_id AS id, storefronts, extend_by_days AS days, state, submitted_by, decided_by,
    called_at,
    (SELECT coalesce(sum(c.attempts), 0) FROM repricer.store_calls c
        WHERE c.subject = 'product:' || m.product_id AND m.extension_id = ANY (c.carries)) AS attempts,
    completed_at, status_succeeded, status_failed, summary_succeeded, summary_failed
    FROM repricer.mass_extensions m"""
ATTRIBUTED = """SELECT original_transaction_id AS subscription, extension_id AS id, is_single, outcome, renewal_at
    FROM repricer.attributed_extensions"""
OUTBOX = """SELECT aggregateid AS subscription, position, id, type, payload, "timestamp" AS written_at
    FROM repricer.outbox ORDER BY aggregateid, position"""
DELIVERIES = """SELECT aggregateid AS subscription, position, state, attempts, last_error
    FROM repricer.webhook_deliveries"""
RECONCILIATION = "SELECT check_name, problems FROM report.reconciliation WHERE NOT is_ok"
INBOX = "SELECT original_transaction_id AS subscription, notification_uuid, error FROM repricer.inbox"


def taken(deliveries):
    found = {}
    for record in deliveries:
        if record["result"] == "SUCCESS":
            found.setdefault(record["uuid"], record["at"])
    return found


def timed(rows, *keys):
    """The rows with these columns as UTC milliseconds."""
    for row in rows:
        for key in keys:
            row[key] = instant(row[key])
    return rows


def gather(world, trouble):
    """The evidence of a world whose store has stopped writing."""
    folder, cluster = world.store.folder, world.cluster
    changes = cluster.rows(CHANGES)
    for change in changes:
        for key in ("sent_at", "send_after", "due_effective_at", "next_attempt_at", "effective_at", "ended_at"):
            change[key] = instant(change[key])
    requests = timed(cluster.rows(REQUESTS), "prepared_at", "settled_at")
    return {
        "calls": calls_of(lines(f"{folder}/wire.ndjson"), lines(f"{folder}/calls.ndjson")),
        "events": lines(f"{folder}/events.ndjson"),
        "changes": changes,
        "requests": requests,
        "batches": cluster.rows(BATCHES),
        "rejects": cluster.rows(REJECTS),
        "dependents": timed(cluster.rows(DEPENDENTS), "requested_at", "settled_at"),
        "cancels": timed(cluster.rows(CANCELS), "prepared_at", "settled_at"),
        "extensions": timed(cluster.rows(EXTENSIONS), "called_at", "settled_at", "effective_at"),
        "masses": timed(cluster.rows(MASSES), "called_at", "completed_at"),
        "attributed": timed(cluster.rows(ATTRIBUTED), "renewal_at"),
        "outbox": timed(cluster.rows(OUTBOX), "written_at"),
        "deliveries": cluster.rows(DELIVERIES),
        "hooks": lines(world.hooks.path),
        "secret": world.hooks.secret,
        "owners": owners(f"{folder}/store.json"),
        # When the receiver took each notification first, by the business clock.
        "told": taken(lines(f"{folder}/deliveries.ndjson")),
        "asked": world.asked,
        "inbox": cluster.rows(INBOX),
        "files": {name: file_rows(path) for name, path in world.submitted},
        "limits": world.plan.limits,
        "absences": trouble.absences,
        "outages": trouble.outages,
        "stops": trouble.stops,
        "losses": getattr(trouble, "losses", []),
        # Orders to refuse one call, and many in a row; and since when until when all were refused.
        "refusals": getattr(trouble, "refusals", [0, 0]),
        "alike": getattr(trouble, "alike", []),
        "reconciliation": cluster.rows(RECONCILIATION),
        "stalls": world.pulse.stalls(),
        # When the database said that calls wait until the history is read.
        "holds": world.holds.spans if world.holds else [],
        # Whether the store's clock is the machine's: then instants of both compare.
        "is_real": world.plan.kind == "test",
        # Business milliseconds that pass in one of the machine's.
        "speed": world.plan.speed,
        "grace": world.plan.grace,
        "end": world.ended_at,
        "real_end": world.real_end,
    }
