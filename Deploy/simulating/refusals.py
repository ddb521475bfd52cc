"""What people were refused: each refusal is held against what the store had told until then, or what they had done."""
import collections

# A notification is at most this late. Until then the product may not know what it tells.
from forecasts import POST


class Past:
    """What the store was like, as far as the product can have known at some instant."""

    def __init__(self, store):
        self.lives = {life["id"]: life for life in store["subscriptions"]}
        self.events = collections.defaultdict(list)
        for event in store["events"]:
            self.events[event.get("subscription")].append(event)

    def views(self, id, at):
        """Each state that was told in the days before; with the one that they began in."""
        told = [event for event in self.events[id] if event["at"] <= at and "items" in event]
        earlier = [event for event in told if event["at"] < at - POST]
        return earlier[-1:] + [event for event in told if event["at"] >= at - POST] if told else [self.start(id)]

    def start(self, id):
        """What was told first of all: all that was charged first renews."""
        charges = self.lives[id]["charges"]
        first = min(charge["from"] for charge in charges)
        own = [charge for charge in charges if charge["from"] == first]
        return {"at": first, "status": 1, "autoRenews": True, "expiresAt": max(charge["until"] for charge in own),
                "items": [{"sku": charge["sku"], "price": charge["price"], "isLeaving": False} for charge in own]}

    def lacked(self, id, sku, at):
        """Whether the item was not set to renew at some instant that counts."""
        return any(view["status"] != 1 or not view["autoRenews"] or view["expiresAt"] <= at
                   or not any(item["sku"] == sku and not item["isLeaving"] for item in view["items"])
                   for view in self.views(id, at))


def check(world, store, database):
    """Each fault with its name."""
    past, faults, before = Past(store), [], []
    for deed in world["deeds"]:
        if deed.get("refusal") and not is_rightful(deed, before, database):
            faults.append(("deed-refused", f"{deed['kind']} {deed['subject']} at {deed['at']}: {deed['refusal'][:300]}"))
        for row in deed["rows"]:
            code = row.get("refusedAs")
            if code and not (code in CODES and CODES[code](past, database, row, deed)):
                faults.append(("row-refused", f"{row['id']} {row['sku']} at {row['price']}, {row['dependents']}, on "
                               f"{deed['at']}: {code}"))
        before.append(deed)
    return faults


# Deeds.

def is_rightful(deed, before, database):
    kind, subject, text = deed["kind"], deed["subject"], deed["refusal"]
    done = [other for other in before if not other.get("refusal")]
    if kind in ("withdraw", "resume") and "is aborted" in text:
        return any(other["kind"] == "withdraw" and other["subject"] == subject for other in done)
    if kind == "approve" and "no batch" in text:
        # There was nothing to take back.
        return any(other["kind"].startswith("undo ") and other["subject"] == subject for other in done) and not any(
            change["batch_id"] == subject for change in database["changes"])
    if kind in ("extend", "extend all") and "an identifier of its own" in text:
        # People draw alike what they do in one step.
        return any(other["kind"] in ("extend", "extend all") and other["subject"].split()[-1] == subject.split()[-1]
                   for other in done)
    if kind == "extend" and "extension_open" in text:
        id = subject.split()[0]
        return any(other["kind"] == "extend" and other["subject"].split()[0] == id for other in done)
    if kind == "extend all" and "is under way" in text:
        return any(other["kind"] == "extend all" for other in done)
    if kind == "approve all":
        # What could not be asked for.
        return any(other["kind"] == "extend all" and other["subject"] == subject and other.get("refusal") for other in before)
    return False


# Rows, by code: whether the store or another row bears it out.

def is_no_change(past, database, row, deed):
    prices = {item.get(key) for view in past.views(row["id"], deed["at"]) for item in view["items"]
              if item["sku"] == row["sku"] for key in ("price", "newPrice")}
    prices |= {charge["price"] for charge in past.lives[row["id"]]["charges"]
               if charge["sku"] == row["sku"] and charge["from"] <= deed["at"]}
    return row["price"] in prices


def has_open_change(past, database, row, deed):
    batches = {other["batch_id"]: other["submitted_at"] for other in database["forecasts"]}
    for change in database["changes"]:
        # When an undo was asked for, no table of these tells.
        handed_in = batches.get(change["batch_id"], 0)
        if change["id"] == row["id"] and row["sku"] in (change["sku"], change["current_sku"]) and handed_in < deed["at"] \
                and (change["ended_at"] is None or change["ended_at"] >= deed["at"] - POST):
            return True
    # Somebody else's is to come.
    return any(item["sku"] == row["sku"] and item.get("newPrice")
               for view in past.views(row["id"], deed["at"]) for item in view["items"])


def has_unknown_dependent(past, database, row, deed):
    for name in row["dependents"]:
        id, _, sku = name.rpartition("/")
        if id and past.lives[id]["customer"] != past.lives[row["id"]]["customer"]:
            return True
        if past.lacked(id or row["id"], sku, deed["at"]) or has_another_plan(past, id or row["id"], deed["at"]):
            return True
    return False


def has_another_plan(past, id, at):
    """Whether another item was chosen for one of them, and neither taken back nor charged since: which one renews in its
    place, no event of these tells."""
    ends = [event["at"] for event in past.events[id]
            if event["kind"] == "DID_CHANGE_RENEWAL_PREF" and not event.get("subtype")]
    ends += [charge["from"] for charge in past.lives[id]["charges"]]
    return any(event.get("subtype") in ("DOWNGRADE", "UPGRADE") and not any(event["at"] < end < at - POST for end in ends)
               for event in past.events[id] if event["at"] <= at)


def is_not_active(past, database, row, deed):
    return past.lives[row["id"]]["isFamilyShared"] or any(
        view["status"] != 1 or view["expiresAt"] <= deed["at"] for view in past.views(row["id"], deed["at"]))


def is_not_renewing(past, database, row, deed):
    return any(not view["autoRenews"] for view in past.views(row["id"], deed["at"]))


def is_unpaid(past, database, row, deed):
    return any(view["status"] in (3, 4) for view in past.views(row["id"], deed["at"]))


def is_unknown_item(past, database, row, deed):
    return past.lacked(row["id"], row["sku"], deed["at"]) or has_another_plan(past, row["id"], deed["at"])


def is_in_offer(past, database, row, deed):
    """What is charged is not the item's price, or it is to renew in another one's place: no event tells in which offer."""
    life = past.lives[row["id"]]
    if has_another_plan(past, row["id"], deed["at"]) and row["sku"].rpartition("_LITE")[0] in {
            charge["sku"] for charge in life["charges"]}:
        return True
    charged = {charge["price"] for charge in life["charges"] if charge["sku"] == row["sku"]
               and charge["from"] <= deed["at"] and charge["until"] > deed["at"] - POST}
    told = {item["price"] for event in past.events[row["id"]] for item in event.get("items") or ()
            if item["sku"] == row["sku"]} | {item["price"] for item in life["items"] if item["sku"] == row["sku"]}
    return bool(charged - told)


def was_told_of(past, database, row, deed):
    """The customer was asked, or informed, of an increase of the item that is still to come."""
    return any(item["sku"] == row["sku"] and item.get("newPrice") and item.get("increaseStatus") in ("PENDING", "ACCEPTED")
               for view in past.views(row["id"], deed["at"]) for item in view["items"])


CODES = {
    "no_change": is_no_change, "conflict_open_change": has_open_change, "dependent_unknown": has_unknown_dependent,
    "not_active": is_not_active, "auto_renew_off": is_not_renewing, "billing_retry": is_unpaid, "grace_period": is_unpaid,
    "unknown_item": is_unknown_item, "item_in_offer": is_in_offer, "already_communicated": was_told_of}
