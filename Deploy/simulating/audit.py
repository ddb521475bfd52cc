#!/usr/bin/env python3
"""Judges one simulated world: what the store did, what passed the wire, what people asked for, and what the product's
database says at the end. It shares no code with the product: it reads JSON, and counts.

    audit.py WORLD.json…       prints each fault, named; exits 1 where there is one. Of several worlds it also asks whether all
                               that the checks are about happened in one of them at least.
"""
import calendar
import collections
import json
import sys
import time

import forecasts
import refusals
import unsent

OPEN = {"scheduled", "pending_consent", "accepted"}
IN_FLIGHT = {"sending", "unknown"}
STATES = ("awaiting_approval queued sending unknown scheduled pending_consent accepted effective declined cancelled "
          "lapsed invalidated rejected ineligible missed aborted").split()
DAY = 86_400_000
# With this many months that follow another one, some must be comparable.
PAIRS_LEAST = 20


class Auditor:
    def __init__(self, world):
        self.world, self.store, self.db = world["world"], world["store"], world["database"]
        self.lives = {life["id"]: life for life in self.store["subscriptions"]}
        self.changes = {change["change_id"]: change for change in self.db["changes"]}
        self.calls = {call["call_id"]: call for call in self.db["calls"]}
        self.events = collections.defaultdict(list)
        for event in self.store["events"]:
            self.events[event.get("subscription")].append(event)
        self.faults = []

    def fault(self, name, text):
        self.faults.append((name, text))

    def run(self):
        for failure in self.world["failures"]:
            self.fault("failed-in-quiet-times", failure)
        for check in (self.rows, self.refusals, self.unsent, self.states_add_up, self.effects, self.one_in_flight, self.ids_of_unknowns,
                      self.decisions, self.truth_of_changes, self.dates, self.effective_when_charged,
                      self.charged_when_not_effective, self.dependents, self.extensions,
                      self.at_rest, self.subscriptions, self.ledger, self.explanations, self.bridge, self.forecasts):
            check()
        return self.faults

    # Rows: what people handed in is there, once, as they meant it, and nothing else.
    def rows(self):
        seen = collections.Counter()
        stored = {}
        for change in self.db["changes"]:
            key = (change["batch_id"], change["line"])
            seen[key] += 1
            stored[key] = change
        for key, count in seen.items():
            if count > 1:
                self.fault("row-doubled", f"batch {key[0]} line {key[1]} is there {count} times")
        asked = set()
        for deed in self.world["deeds"]:
            if deed["kind"] != "batch" or not deed["subject"]:
                continue
            good = [row for row in deed["rows"] if not row.get("refusedAs")]
            for row in good:
                key = (deed["subject"], row["line"])
                asked.add(key)
                change = stored.get(key)
                if change is None:
                    self.fault("row-lost", f"{row['id']} {row['sku']} of batch {key[0]}")
                elif (change["id"], change["sku"], change["price"]) != (row["id"], row["sku"], row["price"]):
                    self.fault("row-changed", f"{row} became {change['id']} {change['sku']} {change['price']}")
                elif set(change["dependent_skus"]) != set(row["dependents"]):
                    self.fault("dependents-changed", f"{row} has {change['dependent_skus']}")
            for batch in self.db["batches"]:
                if batch["batch_id"] == deed["subject"]:
                    if batch["row_count"] != len(good) or batch["rejected_row_count"] != len(deed["rows"]) - len(good):
                        self.fault("batch-miscounted", f"{batch}")
        undos = {deed["subject"]: deed["kind"].split()[1] for deed in self.world["deeds"]
                 if deed["kind"].startswith("undo ") and not deed.get("refusal")}
        for key, change in stored.items():
            undone = self.changes.get(change["undoes"])
            if key[0] in undos and undone and undone["batch_id"] == undos[key[0]]:
                if (change["id"], change["sku"], change["price"]) != (undone["id"], undone["sku"], undone["old_price"]):
                    self.fault("undo-of-another", f"{change['change_id']} does not take back {undone['change_id']}")
            elif key not in asked:
                self.fault("row-invented", f"batch {key[0]} line {key[1]}")

    # Refusals: nobody was refused, and no row, but for a reason that was so.
    def refusals(self):
        self.faults += refusals.check(self.world, self.store, self.db)

    # Ends without a call: each has its cause.
    def unsent(self):
        self.faults += unsent.check(self.world, self.store, self.db)

    # States: each is one that exists, an end has its instant, and the report says what the rows say.
    def states_add_up(self):
        counts = collections.defaultdict(collections.Counter)
        for change in self.db["changes"]:
            counts[change["batch_id"]][change["state"]] += 1
            if change["state"] not in STATES:
                self.fault("state-unheard-of", f"{change['change_id']} {change['state']}")
        for summary in self.db["summaries"]:
            own = counts[summary["batch_id"]]
            for state in STATES:
                if summary[f"rows_{state}"] != own[state]:
                    self.fault("summary-wrong", f"batch {summary['batch_id']} {state}: {summary[f'rows_{state}']}, "
                               f"not {own[state]}")
            if not summary["rows_add_up"]:
                self.fault("rows-do-not-add-up", summary["batch_id"])

    def applied(self, endpoint):
        return [call for call in self.store["calls"] if call["endpoint"] == endpoint and call["applied"]]

    # Effects: the store applied nothing that no row ordered, and no row twice.
    def effects(self):
        rows = collections.Counter()
        for change in self.db["changes"]:
            for sku in {change["sku"], change["current_sku"] or change["sku"]}:
                rows[(change["id"], sku, change["price"])] += 1
        done = collections.defaultdict(set)
        for call in self.applied("changePrice"):
            reference = call["requestReferenceId"]
            known = self.calls.get(reference)
            body = json.loads(call["body"])
            if known is None:
                self.fault("call-nobody-knows", f"changePrice {reference} of {call['transactionId']}")
                continue
            if known["subject"] != call["transactionId"]:
                self.fault("call-of-another", f"{reference} of {call['transactionId']} is of {known['subject']} here")
            for item in body["items"]:
                done[(call["transactionId"], item["SKU"], item["price"])].add(reference)
        for key, references in done.items():
            if rows[key] == 0:
                self.fault("price-nobody-ordered", f"{key}")
            elif len(references) > rows[key]:
                self.fault("applied-twice", f"{key} under {sorted(references)}")
        by_change = collections.Counter()
        for call in self.calls.values():
            if call["kind"] == "price_change" and call["state"] == "answered":
                for change in call["carries"]:
                    by_change[change] += 1
        for change, count in by_change.items():
            if count > 1 and change in self.changes and not self.changes[change]["doubtful_since"]:
                reopened = any(call["is_reopened"] or call["is_doubtful"] for call in self.calls.values()
                               if change in call["carries"])
                if not reopened:
                    self.fault("change-sent-twice", f"{change} was answered {count} times")
        cancels = collections.defaultdict(set)
        for call in self.applied("cancel"):
            if call["requestReferenceId"] not in self.calls:
                self.fault("call-nobody-knows", f"cancel {call['requestReferenceId']} of {call['transactionId']}")
            cancels[call["transactionId"]].add(call["requestReferenceId"])
        wanted = collections.Counter(row["target"] for row in self.db["dependents"] if row["is_cross"])
        for subscription, references in cancels.items():
            if len(references) > wanted[subscription]:
                self.fault("cancelled-without-cause", f"{subscription} under {sorted(references)}")

    def attempts(self):
        began, by_subject = {}, collections.defaultdict(list)
        for line in self.world["wire"]:
            # A request without an id asks for the progress of a mass extension.
            if line["endpoint"] not in ("changePrice", "cancel", "extend") or "reference" not in line:
                continue
            if "outcome" not in line:
                began[line["sequence"]] = line
            by_subject[line["subject"]].append(line)
        return by_subject

    # The wire: never two calls of one subscription at a time.
    def one_in_flight(self):
        for subject, lines in self.attempts().items():
            out = {}
            for line in lines:
                if "outcome" in line:
                    out.pop(line["sequence"], None)
                    continue
                for other in out.values():
                    self.fault("two-calls-at-a-time", f"{subject}: {other['reference']} and {line['reference']}")
                out[line["sequence"]] = line

    # The wire: while a call's outcome is not known, no other id is given to the same subscription before a status was read,
    # unless a notification told that the call was applied, as it was.
    def ids_of_unknowns(self):
        open_calls = {}
        applied = {call.get("requestReferenceId") for call in self.store["calls"] if call["applied"]}
        told = {call_id for call_id, call in self.calls.items() if call["state"] == "answered"} & applied
        for line in self.world["wire"]:
            outcome, subject = line.get("outcome"), line["subject"]
            if line["endpoint"] == "subscriptions":
                if outcome == "answered":
                    open_calls.pop(subject, None)
                continue
            if line["endpoint"] not in ("changePrice", "cancel", "extend") or "reference" not in line:
                continue
            known = open_calls.get(subject)
            if outcome is None:
                if known and known != line["reference"]:
                    self.fault("another-id-while-unknown", f"{subject}: {line['reference']} after {known}")
            elif outcome in ("lost", "died") and line["reference"] not in told:
                open_calls[subject] = line["reference"]
            elif outcome in ("answered", "refused") and known == line["reference"] and line.get("status") not in (429, 503):
                open_calls.pop(subject, None)

    # The wire: nothing leaves while people have paused everything, and nothing that they withdrew leaves for the first time.
    def decisions(self):
        carried = {call_id: call["carries"] for call_id, call in self.calls.items() if call["kind"] == "price_change"}
        seen = set()
        events = [(deed["at"], 0, deed) for deed in self.world["deeds"] if not deed.get("refusal")]
        events += [(line["at"], 1, line) for line in self.world["wire"] if "outcome" not in line]
        paused, withdrawn = False, set()
        for _, is_call, event in sorted(events, key=lambda event: event[:2]):
            if not is_call:
                if event["subject"] == "all" and event["kind"] in ("pause", "resume"):
                    paused = event["kind"] == "pause"
                if event["kind"] == "withdraw":
                    withdrawn.add(event["subject"])
                continue
            if event["endpoint"] not in ("changePrice", "cancel", "extend") or "reference" not in event:
                continue
            if paused:
                self.fault("sent-while-paused", f"{event['endpoint']} {event['reference']} of {event['subject']}")
            batches = {self.changes[change]["batch_id"] for change in carried.get(event["reference"], ())
                       if change in self.changes}
            if event["reference"] not in seen and batches & withdrawn:
                self.fault("sent-though-withdrawn", f"{event['reference']} of {event['subject']}")
            seen.add(event["reference"])

    # States against the store: what is open here is scheduled there, and what is scheduled there by us is open here.
    def truth_of_changes(self):
        said = {"scheduled": {"SCHEDULED"}, "pending_consent": {"PENDING"}, "accepted": {"ACCEPTED"}}
        opened = collections.defaultdict(list)
        ordered = collections.defaultdict(set)
        for call in self.applied("changePrice"):
            for item in json.loads(call["body"])["items"]:
                ordered[call["transactionId"]].add((item["SKU"], item["price"]))
        for change in self.db["changes"]:
            if change["state"] not in OPEN:
                continue
            sku = change["current_sku"] or change["sku"]
            life = self.lives[change["id"]]
            named = dict(zip(life["renewalNames"], life["items"]))
            item = named.get(sku)
            opened[(change["id"], sku)].append(change)
            # Another item is set to renew in its place. The renewal decides, and until then the reason alone tells of it.
            if item is None and change["reason"] == "item_replaced" and sku in {item["sku"] for item in life["items"]}:
                continue
            # So it is with an item that was only to come, and does not any more: the customer took the downgrade back.
            if item is None and (sku, change["price"]) in ordered[change["id"]] \
                    and sku not in {item["sku"] for item in life["items"]} \
                    and max((charge["from"] for charge in life["charges"]), default=0) < change["sent_at"]:
                continue
            # What is taken back leaves nothing to come in the store: the item goes on at its price.
            if change["undoes"] and item and item.get("newPrice") is None and item["price"] == change["price"]:
                continue
            if item is None or item.get("newPrice") is None or not life["isBilledOrWaiting"]:
                self.fault("open-without-truth", f"{change['id']} {sku} is {change['state']} here, and not there")
            elif item["newPrice"] != change["price"]:
                self.fault("open-at-another-price", f"{change['id']} {sku}: {change['price']} here, {item['newPrice']}")
            elif item.get("increaseStatus") and item["increaseStatus"] not in said[change["state"]]:
                self.fault("state-wrong", f"{change['id']} {sku} is {change['state']} here, {item['increaseStatus']}")
        for life in self.lives.values():
            for name, item in zip(life["renewalNames"], life["items"]):
                is_ours = {(item["sku"], item.get("newPrice")), (name, item.get("newPrice"))} & ordered[life["id"]]
                if item.get("newPrice") and is_ours and life["isBilledOrWaiting"] and not item["isLeaving"] \
                        and life["autoRenews"] and not opened[(life["id"], item["sku"])] and not opened[(life["id"], name)]:
                    self.fault("truth-without-open", f"{life['id']} {item['sku']} at {item['newPrice']}")

    # Dates: a call planned what the store then made of it, unless something had just happened that no notification had told
    # yet, or the store asks where nobody could know that, or does not: what is not known is dated as if it were asked. And
    # what is open is due when the store will charge it.
    SAID = {"required": True, "not_required": False, "none": None}

    def dates(self):
        made, happened = {}, collections.defaultdict(list)
        for event in self.store["events"]:
            happened[event.get("subscription")].append(event["at"])
        for call in self.applied("changePrice"):
            for item in call["effects"] or ():
                made.setdefault((call["requestReferenceId"], item["sku"], item.get("newPrice")),
                                (item.get("effectiveAt"), item.get("needsConsent"), call["at"]))
        consents = {row["change_id"]: row["consent"] for row in self.db["forecasts"]}
        for change in self.db["changes"]:
            skus = (change["sku"], change["current_sku"] or change["sku"])
            planned, asks, at = next((made[key] for sku in skus
                                      if (key := (change["reference"], sku, change["price"])) in made), (None, None, None))
            if planned not in (None, change["planned_at"]) \
                    and self.SAID.get(consents.get(change["change_id"], "none"), "not known") == asks \
                    and not any(at - forecasts.POST <= event < at for event in happened[change["id"]]) \
                    and not self.is_day_of_extended_month(change, change["planned_at"], planned):
                self.fault("planned-for-another-date",
                           f"{change['id']} {change['sku']}: {change['planned_at']}, not {planned}")
            if change["state"] not in OPEN:
                continue
            life = self.lives[change["id"]]
            for name, item in zip(life["renewalNames"], life["items"]):
                # Whether a price of an item that is still to come is an increase, Apple does not say.
                if item.get("replacedBy"):
                    continue
                if skus[1] in (name, item["sku"]) and item.get("newPrice") == change["price"] \
                        and item.get("effectiveAt") not in (None, change["due_at"]) \
                        and not self.is_to_be_told(change, item, consents) \
                        and not self.is_day_of_extended_month(change, change["due_at"], item["effectiveAt"]):
                    self.fault("due-at-another-date", f"{change['id']} {skus[1]} {change['state']}: {change['due_at']}, "
                               f"not {item['effectiveAt']}")

    # Whether the store asks is not what was forecast, and it has told nobody yet: until it does, nothing else shows the date.
    def is_to_be_told(self, change, item, consents):
        return change["state"] == "scheduled" and item.get("increaseStatus") == "SCHEDULED" \
            and change["change_id"] in consents and (change["due_at"] == change["planned_at"]
                                                     or bool(self.lives[change["id"]]["extendedAt"])) \
            and self.SAID.get(consents[change["change_id"]], "not known") != item.get("needsConsent")

    # A month that was extended to its end may renew on a 30th from then on, or on a 31st: no statement tells which. And where
    # a failed charge was recovered, the start of the subscription tells the day no more: ours is that of the next renewal then.
    def is_day_of_extended_month(self, change, ours, theirs):
        first, last = (time.gmtime(at / 1000) for at in (ours, theirs))
        recovered = {time.gmtime(event["purchasedAt"] / 1000).tm_mday for event in self.events[change["id"]]
                     if event.get("subtype") == "BILLING_RECOVERY" and event["at"] <= ours}
        length = calendar.monthrange(last.tm_year, last.tm_mon)[1]
        was_moved = bool(self.lives[change["id"]]["extendedAt"]) \
            or any(last.tm_mday == min(day, length) for day in recovered)
        return was_moved and first[:2] == last[:2] and 28 <= first.tm_mday < last.tm_mday

    def charges(self):
        for life in self.lives.values():
            if not life["isFamilyShared"]:
                yield from life["charges"]

    # Effective means charged, at the instant of the first such charge since the call.
    def effective_when_charged(self):
        for change in self.db["changes"]:
            skus = {change["sku"], change["current_sku"]}
            first = [charge["from"] for charge in self.lives[change["id"]]["charges"]
                     if charge["sku"] in skus and charge["price"] == change["price"]
                     and charge["currency"] == change["currency"]
                     and change["sent_at"] is not None and charge["from"] >= change["sent_at"]]
            if change["state"] == "effective":
                if not first:
                    self.fault("effective-uncharged", f"{change['id']} {change['sku']} {change['price']}")
                elif change["effective_at"] != min(first):
                    self.fault("effective-at-another-date",
                               f"{change['id']} {change['sku']}: {change['effective_at']}, not {min(first)}")

    # No end is believed against money: a charge at a change's price since its call made that effective, or is named.
    def charged_when_not_effective(self):
        named = {(row["transaction"], row["sku"]) for row in self.db["exceptions"]}
        effective = {(change["id"], change["price"]) for change in self.db["changes"] if change["state"] == "effective"}
        for change in self.db["changes"]:
            life = self.lives[change["id"]]
            if change["state"] == "effective" or change["sent_at"] is None or life["isFamilyShared"] or change["undoes"] \
                    or change["price"] == change["old_price"] or (change["id"], change["price"]) in effective:
                continue
            for charge in life["charges"]:
                if charge["sku"] in (change["sku"], change["current_sku"]) and charge["price"] == change["price"] \
                        and charge["currency"] == change["currency"] and charge["from"] >= change["sent_at"] \
                        and (charge["transaction"], charge["sku"]) not in named \
                        and not self.is_old_price_of_a_later(change, charge):
                    self.fault("charged-and-unnoticed", f"{change['id']} {change['sku']} {change['state']}: "
                               f"{charge['transaction']} at {charge['price']}")

    # Who declined and came back at that price pays the old price of the next change of the item.
    def is_old_price_of_a_later(self, change, charge):
        return any(other["id"] == change["id"] and other["sku"] == change["sku"] and other["old_price"] == charge["price"]
                   and other["sent_at"] is not None and change["sent_at"] < other["sent_at"] <= charge["from"]
                   for other in self.db["changes"])

    # Dependents: each of a declined change has its row, is gone where that says so, and none waits for ever.
    def dependents(self):
        rows = collections.defaultdict(set)
        for row in self.db["dependents"]:
            rows[row["change_id"]].add(row["dependent_sku"])
            life = self.lives.get(row["target"] if row["is_cross"] else row["id"])
            if life is None:
                continue
            if row["state"] == "requested" and self.store["now"] - row["requested_at"] > 5 * DAY:
                self.fault("dependent-left-open", f"{row['id']} {row['dependent_sku']}")
        for change in self.db["changes"]:
            if change["state"] != "declined":
                continue
            missing = {sku.split("/")[-1] for sku in change["dependent_skus"]} - {
                sku.split("/")[-1] for sku in rows[change["change_id"]]}
            if missing:
                self.fault("dependent-forgotten", f"{change['id']} {change['sku']}: {sorted(missing)}")
        cancelled = collections.defaultdict(list)
        for call in self.applied("cancel"):
            cancelled[call["transactionId"]].append(call["at"])
        for row in self.db["dependents"]:
            if row["state"] == "not_needed" and self.changes[row["change_id"]]["state"] == "declined":
                self.fault("dependent-let-go", f"{row['id']} {row['dependent_sku']}: its parent was declined")
            if row["state"] == "discrepancy" and not self.is_discrepancy(row):
                self.fault("discrepancy-without-cause", f"{row['id']} {row['dependent_sku']}: {row['detail']}")
            if row["state"] != "confirmed":
                continue
            if not row["is_cross"]:
                if self.still_renews(row["id"], row["dependent_sku"]) and not self.was_gone(row):
                    self.fault("dependent-not-cancelled", f"{row['id']} {row['dependent_sku']} goes on")
                continue
            life = self.lives[row["target"]]
            # It had ended by itself, and the customer bought it anew later.
            begins = [charge["from"] for charge in life["charges"]]
            is_new = max(begins, default=0) > row["requested_at"] and not any(
                charge["from"] <= row["requested_at"] < charge["until"] for charge in life["charges"])
            # A cancellation for an earlier parent is none for this one: the customer had taken it back by then.
            is_cancelled = any(at >= row["requested_at"] for at in cancelled[row["target"]])
            if not is_cancelled and self.still_renews(row["target"], row["dependent_sku"]) and not is_new:
                self.fault("dependent-not-cancelled", f"{row['id']}: {row['target']} goes on")

    def still_renews(self, id, name):
        life, sku = self.lives[id], name.split("/")[-1]
        return life["autoRenews"] and sku in life["renewing"] and any(item["sku"] == sku for item in life["items"])

    # Whether the store had told, about when the dependent was asked for or since, that it does not renew.
    def was_gone(self, row):
        return any(not renews(event, row["dependent_sku"]) for event in self.events[row["id"]]
                   if event["at"] >= row["requested_at"] - forecasts.POST)

    # A person has to look only where the dependent went on after its parent, or where no program may cancel it: another
    # customer's, beside something else, of no known place, or refused by the store.
    def is_discrepancy(self, row):
        target = row["target"] if row["is_cross"] else row["id"]
        if target is None or target not in self.lives:
            return row["is_cross"]
        life, own = self.lives[target], self.lives[row["id"]]
        sku, since = row["dependent_sku"].split("/")[-1], row["requested_at"]
        told = [event for event in self.events[target] if event["at"] >= since - forecasts.POST]
        if not row["is_cross"]:
            return any(charge["sku"] == sku and charge["from"] > since for charge in life["charges"]) or any(
                renews(event, sku) for event in told) or self.still_renews(target, sku)
        falling = {other["dependent_sku"].split("/")[-1] for other in self.db["dependents"] if other["target"] == target}
        lived = {item["sku"] for event in told for item in event.get("items") or ()} | set(life["renewing"]) | {
            charge["sku"] for charge in life["charges"] if charge["until"] > since - forecasts.POST}
        return life["customer"] != own["customer"] or bool(lived - falling) or any(
            call["endpoint"] == "cancel" and call["transactionId"] == target and call["status"] >= 400
            for call in self.store["calls"])

    # Extensions: what the store did was asked for, once, and is known.
    def extensions(self):
        asked = {row["extension_id"] for row in self.db["extensions"]}
        masses = {row["extension_id"] for row in self.db["masses"]}
        done = collections.Counter()
        for call in self.applied("extend"):
            reference = call["requestReferenceId"]
            if not call["repeated"]:
                done[reference] += 1
            if reference not in asked:
                self.fault("call-nobody-knows", f"extend {reference} of {call['transactionId']}")
        for call in self.applied("extendAll"):
            if call["requestReferenceId"] not in masses:
                self.fault("call-nobody-knows", f"extendAll {call['requestReferenceId']}")
        for reference, count in done.items():
            if count > 1:
                self.fault("extended-twice", reference)
        ids = {deed["subject"].split()[-1] for deed in self.world["deeds"]
               if deed["kind"] in ("extend", "extend all") and not deed.get("refusal")}
        for wanted in ids - asked - masses:
            self.fault("extension-lost", wanted)
        for row in self.db["extensions"]:
            single = row["mass_extension_id"] is None
            if single and row["state"] == "extended" and row["extension_id"] not in done:
                self.fault("extended-without-truth", f"{row['id']} {row['extension_id']}")
            if single and row["state"] in ("refused", "ineligible") and row["extension_id"] in done:
                self.fault("extended-yet-refused", f"{row['id']} {row['extension_id']}")

    # In quiet times everything came to rest.
    def at_rest(self):
        for call in self.calls.values():
            if call["state"] in IN_FLIGHT:
                self.fault("call-left-open", f"{call['kind']} {call['call_id']} of {call['subject']}: {call['state']}")
        for change in self.db["changes"]:
            if change["state"] in IN_FLIGHT:
                self.fault("change-left-open", f"{change['change_id']} of {change['id']}: {change['state']}")
        held = {batch["batch_id"] for batch in self.db["batches"]
                if batch["state"] != "approved" or batch["is_paused"] or batch["halted_by"]}
        for change in self.db["changes"]:
            # Its own instant may be to come, and everything else that it may wait for is over in two days.
            is_due = change["send_after"] is None or change["send_after"] < self.store["now"] - 2 * DAY
            if change["state"] == "queued" and change["batch_id"] not in held and is_due:
                self.fault("change-never-sent", f"{change['change_id']} of {change['id']}: {change['parked_reason']}, "
                           f"ready {change['is_ready']}, held {change['is_held']}, from {change['send_after']}")
        # Nobody asks for one in the last weeks.
        for row in self.db["extensions"] + self.db["masses"]:
            if row["state"] in IN_FLIGHT | {"queued"}:
                self.fault("extension-left-open", f"{row['extension_id']}: {row['state']}")

    # What is known of a subscription is what the store has.
    def subscriptions(self):
        known = {row["id"]: row for row in self.db["subscriptions"]}
        for life in self.lives.values():
            row = known.get(life["id"])
            if row is None:
                self.fault("subscription-unknown", life["id"])
                continue
            for name, ours, theirs in (("status", row["status"], life["status"]),
                                       ("expires_at", row["expires_at"], life["expiresAt"]),
                                       ("auto_renews", row["auto_renews"], life["autoRenews"])):
                if ours != theirs:
                    self.fault("subscription-wrong", f"{life['id']} {name}: {ours}, not {theirs}")

    # Money: our ledger is the store's book, transaction by transaction.
    def ledger(self):
        ours = collections.defaultdict(lambda: [0, 0, 0])
        for entry in self.db["money"]:
            sums = ours[(entry["transaction"], entry["sku"], entry["currency"])]
            if entry["kind"] == "charge":
                sums[0] += entry["amount"]
                sums[2] = entry["at"]
            else:
                sums[1] -= entry["amount"]
        theirs = {}
        for charge in self.charges():
            theirs[(charge["transaction"], charge["sku"], charge["currency"])] = charge
        for key, charge in theirs.items():
            if key not in ours:
                self.fault("charge-missing", f"{key} of {charge['price']}")
                continue
            amount, refunded, at = ours[key]
            if amount != charge["price"]:
                self.fault("charge-wrong", f"{key}: {amount}, not {charge['price']}")
            if refunded != charge["refunded"]:
                self.fault("refund-wrong", f"{key}: {refunded}, not {charge['refunded']}")
            if at != charge["from"]:
                self.fault("charge-dated-wrong", f"{key}: {at}, not {charge['from']}")
        for key in ours:
            if key not in theirs:
                self.fault("charge-invented", f"{key}")

    # Every charge since a call is explained, or named an exception, and never both.
    def explanations(self):
        named = collections.defaultdict(set)
        for row in self.db["exceptions"]:
            named[(row["transaction"], row["sku"])].add(row["exception"])
            if row["exception"] in ("missing", "double", "relisted", "wrong_currency"):
                self.fault("exception-without-cause", f"{row}")
        since = collections.defaultdict(list)
        for change in self.db["changes"]:
            # What the App Store never had explains nothing.
            if change["sent_at"] is not None and change["state"] not in forecasts.NEVER_HAD:
                for sku in {change["sku"], change["current_sku"] or change["sku"]}:
                    since[(change["id"], sku)].append(change)
        for entry in self.db["money"]:
            if entry["kind"] != "charge":
                continue
            called = [change for change in since[(entry["id"], entry["sku"])] if change["sent_at"] <= entry["at"]]
            if not called:
                continue
            exceptions = named[(entry["transaction"], entry["sku"])]
            if entry["explained_as"] is None and not exceptions:
                self.fault("charge-unexplained", f"{entry['id']} {entry['transaction']} {entry['sku']} {entry['amount']}")
            if entry["explained_as"] is not None and exceptions:
                self.fault("charge-explained-twice", f"{entry['transaction']} {entry['sku']}: {exceptions}")

    # Since when each batch shares an item, be it a dependent of its own, with a later call of another in one
    # currency: that goes on in the other one's bridge.
    def shared_since(self):
        by_item, all_items = collections.defaultdict(list), collections.defaultdict(list)
        for change in self.db["changes"]:
            at = change["sent_at"] or change["doubtful_since"]
            if at is None:
                continue
            place = (change["batch_id"], change["currency"])
            for sku in {change["sku"], change["current_sku"] or change["sku"]}:
                by_item[(change["id"], sku)].append((at, change["batch_id"]))
                all_items[(change["id"], sku)].append((at, place))
            for name in change["dependent_skus"]:
                id, _, sku = name.rpartition("/")
                all_items[(id or change["id"], sku)].append((at, place))
        since = {}
        for item, calls in all_items.items():
            for at, place in calls:
                for later, other in by_item[item]:
                    if other != place[0] and later >= at:
                        since[place] = min(later, since.get(place, later))
        return since

    # The bridge: opening and effects are the closing, and a month opens as the one before closed, once all is called.
    def bridge(self):
        parts = ("opening", "price_effect", "declined", "left", "lapsed", "dependents", "refunds", "other")
        months = collections.defaultdict(dict)
        for row in self.db["bridge"]:
            total = sum(row[f"{part}_milliunits"] for part in parts)
            if total != row["closing_milliunits"]:
                self.fault("bridge-open", f"{row['month']} {row['currency']}: {total}, not {row['closing_milliunits']}")
            months[(row["batch_id"], row["storefront"], row["currency"])][row["month"]] = row
        shared, called, looks, pairs = self.shared_since(), collections.defaultdict(int), 0, 0
        for change in self.db["changes"]:
            called[change["batch_id"]] = max(called[change["batch_id"]], change["sent_at"] or 0)
        for (batch, storefront, currency), rows in months.items():
            last = time.strftime("%Y-%m-%d", time.gmtime(called[batch] / 1000))
            told = sorted(month for month in rows if month >= last)
            for month, later in zip(told, told[1:]):
                closing, opening = rows[month]["closing_milliunits"], rows[later]["opening_milliunits"]
                pairs += 1
                since = shared.get((batch, currency))
                if since is not None and later >= first_of_month(since):
                    continue
                looks += 1
                if closing != opening:
                    self.fault("bridge-broken", f"batch {batch} {storefront} {currency}: {month} closes at {closing}, "
                               f"{later} opens at {opening}")
        if pairs >= PAIRS_LEAST and not looks:
            self.fault("bridge-unseen", f"none of {pairs} pairs of months was compared")

    # Forecasts: the report of what became of them says what the store did.
    def forecasts(self):
        self.faults += forecasts.check(self.store, self.db)


def renews(event, name):
    """Whether the store's event says that this item renews."""
    sku = name.split("/")[-1]
    return event.get("autoRenews") is not False and event.get("status") in (1, 3, 4) and any(
        item["sku"] == sku and not item["isLeaving"] for item in event.get("items") or ())


def first_of_month(instant):
    return time.strftime("%Y-%m-01", time.gmtime(instant / 1000))


# What the checks are about; in a small world one of these may be missing.
HAPPENINGS = {
    "effective change": lambda auditor: any(change["state"] == "effective" for change in auditor.db["changes"]),
    "price that the store took": lambda auditor: auditor.applied("changePrice"),
    "extension": lambda auditor: auditor.applied("extend") or auditor.applied("extendAll"),
    "death": lambda auditor: auditor.world["deaths"]}


def missing(auditors):
    """Each thing that happened in none of the worlds."""
    return [f"no {name} in {len(auditors)} worlds" for name, happened in HAPPENINGS.items()
            if not any(happened(auditor) for auditor in auditors)]


def report(faults, limit=12):
    counts = collections.Counter(name for name, _ in faults)
    shown = collections.Counter()
    for name, text in faults:
        shown[name] += 1
        if shown[name] <= limit:
            print(f"  {name}: {text}")
    for name, count in counts.items():
        if count > limit:
            print(f"  {name}: {count - limit} more")


def judge(path):
    """The auditor of a world, and whether the world is sound."""
    with open(path, encoding="utf-8") as file:
        world = json.load(file)
    auditor = Auditor(world)
    faults = auditor.run()
    told = world["world"]
    states = collections.Counter(change["state"] for change in auditor.db["changes"])
    print(f"seed {told['seed']}: {told['subscriptions']} subscriptions, {told['days']} days, {told['steps']} steps, "
          f"{told['deaths']} deaths, {len(told['wire']) // 2} calls, {len(auditor.db['changes'])} changes "
          f"({', '.join(f'{count} {state}' for state, count in sorted(states.items()))}): "
          f"{'sound' if not faults else f'{len(faults)} faults'}")
    report(faults)
    saw = [name for name, happened in HAPPENINGS.items() if happened(auditor)]
    print(f"  saw: {', '.join(saw) or 'nothing'}")
    return auditor, not faults


def main():
    if len(sys.argv) < 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    if sys.argv[1] == "--lacking":
        # Of worlds that were judged one by one: what none of their lines says that it saw.
        told = {name.strip() for line in sys.stdin for name in line.removeprefix("  saw: ").split(",")}
        lacking = [name for name in HAPPENINGS if name not in told]
        print("\n".join(f"no {name} in any world" for name in lacking))
        return 1 if lacking else 0
    try:
        judged = [judge(path) for path in sys.argv[1:]]
    except (OSError, ValueError) as error:
        print(f"audit: {' '.join(sys.argv[1:])} can't be read: {error}", file=sys.stderr)
        return 2
    lacking = missing([auditor for auditor, _ in judged]) if len(judged) > 1 else []
    for text in lacking:
        print(f"  nothing-happened: {text}")
    return 1 if lacking or not all(is_sound for _, is_sound in judged) else 0


if __name__ == "__main__":
    sys.exit(main())
