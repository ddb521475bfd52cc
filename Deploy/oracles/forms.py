"""The same rows in the forms that a batch file may have: CSV as people and spreadsheets write it, or NDJSON."""

import csv
import io
import json
import re

COLUMNS = ["original_transaction_id", "sku", "price", "currency", "storefront", "dependent_skus", "expected_price",
           "effective_on_or_after"]
PRICES = ["price", "expected_price"]


def plain_csv(rows):
    """As a program writes it; says on which line each row stands."""
    return _csv(rows, COLUMNS, lambda cell: cell, lambda number: 0, "\n")


def some_form(rows, chance):
    """One of the forms, chosen at random; says on which line each row stands."""
    if chance.random() < 0.2:
        return _ndjson(rows, chance)
    columns = COLUMNS if chance.random() < 0.5 else chance.sample(COLUMNS, len(COLUMNS))
    if chance.random() < 0.3:
        # A zero more says nothing: 12.990 is 12.99.
        for row in rows:
            for name in PRICES:
                if re.fullmatch(r"\d+\.\d\d?", row.cells[name]):
                    row.cells[name] = (row.cells[name] + "00")[:row.cells[name].index(".") + 4]
    is_padded, has_gaps = chance.random() < 0.3, chance.random() < 0.3
    in_milliunits = chance.random() < 0.25
    text = _csv(
        rows, columns, lambda cell: chance.choice(["", " ", "\t"]) + cell + chance.choice(["", " "]) if is_padded else cell,
        lambda number: chance.choice([0, 0, 0, 0, 1, 2]) if has_gaps else 0,
        chance.choice(["\n", "\r\n"]), in_milliunits)
    return ("\ufeff" if chance.random() < 0.2 else "") + text


def _csv(rows, columns, padded, gap_before, ending, in_milliunits=False):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator=ending)
    writer.writerow(["price_milliunits" if each == "price" and in_milliunits else each for each in columns])
    line = 2
    for number, row in enumerate(rows):
        for _ in range(gap_before(number)):
            writer.writerow([""] * len(columns))
            line += 1
        row.line = line
        cells = _with_unit(row.cells, in_milliunits)
        writer.writerow([padded(cells[each]) for each in columns])
        line += 1
    return out.getvalue()


def _with_unit(cells, in_milliunits):
    if not in_milliunits:
        return cells
    return {**cells, **{each: _thousandfold(cells[each]) for each in PRICES}}


def _thousandfold(text):
    if not re.fullmatch(r"-?\d+(\.\d{1,3})?", text):
        return text
    whole, _, rest = text.partition(".")
    return str(int(whole + (rest + "000")[:3]))


def _ndjson(rows, chance):
    in_milliunits, lines = chance.random() < 0.3, []
    for number, row in enumerate(rows):
        row.line = number + 1
        cells = {key: cell for key, cell in _with_unit(row.cells, in_milliunits).items()
                 if cell or key in ("original_transaction_id", "sku", "price", "currency")}
        if in_milliunits:
            cells["price_milliunits"] = cells.pop("price")
            for key in ["price_milliunits", "expected_price"]:
                if re.fullmatch(r"-?\d+", cells.get(key, "")):
                    cells[key] = int(cells[key])
        if "dependent_skus" in cells and chance.random() < 0.5:
            cells["dependent_skus"] = cells["dependent_skus"].split(";")
        lines.append(json.dumps(cells, ensure_ascii=chance.random() < 0.5))
    return "\n".join(lines) + "\n"
