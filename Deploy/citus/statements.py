#!/usr/bin/env python3
"""Which statements of the product a Citus cluster refuses, asked one by one.

    statements.py LOG PSQL URL [--samples N]

LOG is the log of a plain PostgreSQL under which the product has lived (log_statement = all, parameters whole, prefix
`~%e~%p~ `). Each named statement in it is prepared on the cluster and executed with the values that it had, in a transaction
of its own which is rolled back. Prints a line for each that is refused as not supported, and how many are not; exits 1
where one is refused.
"""
import collections
import re
import subprocess
import sys

BEGIN = re.compile(r"^~(?P<state>\w*)~(?P<pid>\d+)~ (?P<level>[A-Z]+):  (?P<text>.*)$")
EXECUTE = re.compile(r"^execute [^:]*: (?P<sql>.*)$", re.DOTALL)
VALUE = re.compile(r"\$(\d+) = (NULL|'(?:[^']|'')*')", re.DOTALL)
# The migrator runs before the tables are spread.
MIGRATOR = re.compile(r"repricer\.(schema_migrations|migration_steps)")
CURSOR = re.compile(r"^\s*DECLARE \w+ (NO SCROLL )?CURSOR FOR", re.MULTILINE)
FETCH = re.compile(r"^\s*(FETCH|CLOSE) ", re.MULTILINE)
# Postgres says so of what Citus does not do: feature not supported, and its own internal errors.
REFUSED = re.compile(r"ERROR:  (0A000|XX000|42883|42P01|42P17|42601): (.*)")


def entries(lines):
    """(pid, level, text) of each entry of the log, continuation lines joined."""
    entry = None
    for line in lines:
        begins = BEGIN.match(line)
        if begins:
            if entry:
                yield entry
            entry = [begins["pid"], begins["level"], begins["text"]]
        elif entry and line.startswith("\t"):
            entry[2] += "\n" + line[1:].rstrip("\n")
    if entry:
        yield entry


def recorded(lines, samples):
    """Up to so many pairs (sql, values) of each named statement, the longest values among them."""
    found = collections.defaultdict(dict)
    last = {}
    for pid, level, text in entries(lines):
        executed = EXECUTE.match(text) if level == "LOG" else None
        if executed and "-- name: " in executed["sql"][:40] and not MIGRATOR.search(executed["sql"]):
            last[pid] = executed["sql"]
            found[executed["sql"]].setdefault("", [])
        elif level == "DETAIL" and pid in last and text.startswith("parameters: "):
            values = [value for _, value in VALUE.findall(text)]
            kept = found[last.pop(pid)]
            if len(kept) <= samples:
                kept[str(len(text))] = values
        elif level == "LOG":
            last.pop(pid, None)
    for sql, kept in found.items():
        # A cursor can't be prepared: its question is asked, and what is fetched from it is not.
        sql = CURSOR.sub("", sql)
        if FETCH.search(sql):
            continue
        given = [values for values in kept.values() if values]
        wants = max([int(number) for number in re.findall(r"\$(\d+)", sql)], default=0)
        if wants == 0:
            yield sql, []
        for values in given[:samples]:
            if len(values) == wants:
                yield sql, values


def asked(url, psql, statements):
    """The refusals of the cluster, by the statement's name, each with its number."""
    script = ["\\set VERBOSITY verbose", "SET statement_timeout = '20s';"]
    names = []
    for number, (sql, values) in enumerate(statements):
        names.append(re.match(r"\s*-- name: *(.*)", sql)[1].strip())
        call = f"({', '.join(values)})" if values else ""
        script += [f"\\warn asking {number}", "BEGIN;", f"PREPARE asked AS {sql.rstrip().rstrip(';')};",
                   f"EXECUTE asked{call};", "ROLLBACK;", "DEALLOCATE ALL;"]
    done = subprocess.run([psql, "-XAqt", "-o", "/dev/null", url], input="\n".join(script), text=True,
                          capture_output=True, check=False)
    refusals, number, answered = collections.OrderedDict(), None, 0
    for line in done.stderr.splitlines():
        if line.startswith("asking "):
            number, answered = int(line.split()[1]), answered + 1
        refused = REFUSED.search(line)
        if refused and number is not None:
            refusals.setdefault((names[number], f"{refused[1]} {refused[2]}"), number)
    return refusals, len(set(names)), answered


def main():
    if len(sys.argv) not in (4, 6):
        sys.exit(__doc__)
    samples = int(sys.argv[5]) if len(sys.argv) == 6 else 3
    with open(sys.argv[1], encoding="utf-8", errors="replace") as log:
        statements = list(recorded(log, samples))
    if not statements:
        sys.exit("statements.py: the log holds no named statement; log_statement = all?")
    refusals, names, answered = asked(sys.argv[3], sys.argv[2], statements)
    if answered != len(statements):
        sys.exit(f"statements.py: psql asked {answered} of {len(statements)} statements")
    for name, why in refusals:
        print(f"refused: {name}: {why}")
    refused = len({name for name, _ in refusals})
    print(f"{names - refused} of {names} statements run, {refused} are refused")
    sys.exit(1 if refused else 0)


if __name__ == "__main__":
    main()
