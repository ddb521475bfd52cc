"""A rolling upgrade under load, behind nginx, and what it cost."""

import argparse
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import run
import world as worlds
from outages import Outages, settle_and_audit
from world import Broken, World, stop_process, wait_for

RATE = 25
POSTERS, PAUSE = 4, 0.04

# As the example of nginx has it, and a little more: sooner it asks no replica that has drained.
TAKEN_BACK = 3

# What a release may bring while the former one runs: a column, an index, and rows changed in batches.
QUIET = """-- A rehearsal.
-- breaking: no
-- analyze: repricer.subscriptions
ALTER TABLE repricer.subscriptions ADD COLUMN upgrade_rehearsed boolean;
-- step: rows (batches)
UPDATE repricer.subscriptions SET upgrade_rehearsed = true WHERE bucket = :bucket AND original_transaction_id IN (
    SELECT original_transaction_id FROM repricer.subscriptions
    WHERE bucket = :bucket AND upgrade_rehearsed IS NULL LIMIT 10 FOR UPDATE);
-- step: index (alone)
CREATE INDEX CONCURRENTLY subscriptions_rehearsed ON repricer.subscriptions (bucket, upgrade_rehearsed);
"""
# Says that it breaks nothing, and does.
UNMARKED = QUIET.replace("-- step: rows", "ALTER TABLE repricer.inbox RENAME TO inbox_of_the_next_release;\n-- step: rows")
BREAKING = "-- A rehearsal.\n-- breaking: yes\nCREATE TABLE repricer.upgrade_rehearsal (n integer);\n"


class Nginx:
    """In place of the door of other rounds: the example for operators, without TLS, before all replicas."""

    plant = None

    def __init__(self, port, receivers, chance):
        self.folder = tempfile.mkdtemp(prefix="repricer-nginx-", dir="/tmp")
        with open(f"{root()}/Deploy/nginx/repricer.conf") as file:
            text = file.read()
        text = re.sub(r"listen 443 ssl;", f"listen 127.0.0.1:{port};", text)
        text = re.sub(r".*ssl_(certificate|certificate_key|protocols) .*\n", "", text)
        # All load comes from one address here.
        text = text.replace("rate=200r/s", "rate=5000r/s")
        if self.plant == "haste":
            text = text.replace("fail_timeout=2s", "fail_timeout=30s")
        server = re.search(r"server 127\.0\.0\.1:8080 (.*);", text)
        lines = "".join(f"server 127.0.0.1:{receiver} {server.group(1)};\n" for receiver in receivers)
        text = text.replace(server.group(0), lines)
        if self.plant == "proxy":
            text = re.sub(r"proxy_next_upstream .*;", "proxy_next_upstream off;", text)
        temporary = "".join(
            f"{name}_temp_path {self.folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        with open(f"{self.folder}/nginx.conf", "w") as file:
            # Its workers write bodies into this folder.
            user = "user root;" if os.geteuid() == 0 else ""
            file.write(f"{user} pid {self.folder}/pid; error_log {self.folder}/error.log; events {{}}\n"
                       f"http {{ log_format posts '$status $request_method $http_x_forwarder'; "
                       f"access_log {self.folder}/access.log posts; {temporary}\n{text}\n}}\n")
        self.process = subprocess.Popen(
            ["nginx", "-p", self.folder, "-c", f"{self.folder}/nginx.conf", "-g", "daemon off;"])

    def posts_of_the_store(self):
        """How the posts of the App Store until now, which are of what is new, were answered."""
        with open(f"{self.folder}/access.log") as file:
            return of_the_store(file)

    def close(self):
        stop_process(self.process, 10)
        shutil.rmtree(self.folder, ignore_errors=True)


def of_the_store(lines):
    """The statuses, of lines of nginx's log, of the posts that the posters did not send. A request that nginx cannot read
    has an empty method."""
    return [status for status, method, sender in (line.rstrip("\n").split(" ") for line in lines) if method == "POST" and sender == "-"]


class Posters:
    """Forwarders that post signed notifications through nginx, each stored already, and count what is not answered 200. What
    is new comes from the simulated App Store, through nginx, too; its log tells how it was answered."""

    def __init__(self, port, payloads):
        self.port, self.payloads = port, payloads
        self.posted, self.failed, self.slowest = 0, [], 0.0
        self.lock, self.ended = threading.Lock(), threading.Event()
        self.threads = [threading.Thread(target=self._post, args=(n,), daemon=True) for n in range(POSTERS)]
        for thread in self.threads:
            thread.start()

    def _post(self, number):
        connection, turn = None, number
        while not self.ended.is_set():
            body, turn = self.payloads[turn % len(self.payloads)], turn + POSTERS
            began = time.time()
            try:
                connection = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
                connection.request("POST", "/notifications", body,
                                   {"Content-Type": "application/json", "X-Forwarder": "again"})
                answer = connection.getresponse()
                answer.read()
                outcome = None if answer.status == 200 else str(answer.status)
            except (OSError, http.client.HTTPException) as error:
                connection, outcome = None, repr(error)
            with self.lock:
                self.posted += 1
                self.slowest = max(self.slowest, time.time() - began)
                if outcome:
                    self.failed.append(outcome)
            time.sleep(PAUSE)

    def stop(self):
        self.ended.set()
        for thread in self.threads:
            thread.join(timeout=40)


def root():
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def status_of(port, path, payload=None):
    """How a request is answered, a post where there is a payload; None where nobody listens."""
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        # What has this header is none of the App Store's posts.
        connection.request("POST" if payload else "GET", path, payload, {"X-Forwarder": "check"})
        return connection.getresponse().status
    except OSError:
        return None


class Upgrade:
    def __init__(self, world, options, say):
        self.world, self.options, self.say = world, options, say
        self.folder = f"{world.folder}/migrations"
        shutil.copytree(f"{world.root}/Migrations", self.folder)
        self.numbers = len([name for name in os.listdir(self.folder) if re.match(r"\d{4}_", name)])

    def migrate(self, name, text):
        """Seconds that it took, by the new program."""
        self.numbers += 1
        with open(f"{self.folder}/{self.numbers:04}_{name}.sql", "w") as file:
            file.write(text)
        began = time.time()
        done = self.world.ask("migrate", REPRICER_MIGRATIONS=self.folder,
                              REPRICER_DATABASE_URL=self.world.cluster.urls["postgres"])
        if done.returncode != 0:
            raise Broken(f"migrate exits with {done.returncode}: {done.stderr[-500:]}")
        return round(time.time() - began, 2)

    def replace(self, replica, program):
        """A replica ends and comes back, as a package's upgrade does it."""
        code, seconds = replica.stop()
        if code != 0:
            raise Broken(f"a replica ends with {code} on SIGTERM; see {replica.log}")
        replica.program = program
        replica.start()
        wait_for(60, "the replica", lambda: status_of(replica.port, "/readyz") == 200)
        time.sleep(0 if self.options.plant == "haste" else TAKEN_BACK)
        return round(seconds, 2)

    def calls(self):
        return int(self.world.cluster.sql("SELECT count(*) FROM repricer.store_calls")[0])

    def notifications(self):
        """How many are stored, each once."""
        return int(self.world.cluster.sql("SELECT count(*) FROM repricer.notification_ids")[0])

    def breaking(self):
        """Old programs must have ended, and none makes a call once it is applied."""
        seconds = self.migrate("breaking", BREAKING)
        before = self.calls()
        alive = [replica.number for replica in self.world.replicas if replica.is_alive]
        ends = [replica.wait(30) for replica in self.world.replicas]
        time.sleep(2)
        after = self.calls()
        # What the program of the next release is: one that the mark does not stop.
        self.world.cluster.sql(
            "UPDATE repricer.service_controls SET lowest_program = 0;"
            f"UPDATE repricer.schema_migrations SET is_breaking = false WHERE version = {self.numbers}")
        for replica in self.world.replicas:
            replica.start()
        for replica in self.world.replicas:
            wait_for(60, "the replica", lambda: status_of(replica.port, "/readyz") == 200)
        return {"migrate_seconds": seconds, "alive_when_applied": len(alive), "calls_afterwards": after - before,
                "exit_codes": ends}


def parse(words):
    parser = argparse.ArgumentParser(prog="Deploy/upgrade-check", description=__doc__)
    parser.add_argument("--old", help="folder of the programs of the release before")
    parser.add_argument("--new", help="folder of the programs of this release")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plant", choices=["proxy", "haste", "unmarked"])
    options = parser.parse_args(words)
    options.old = os.path.abspath(options.old or f"{root()}/.build/release")
    options.new = os.path.abspath(options.new or options.old)
    return options


def main(words):
    options = parse(words)
    say = lambda text: print(text, file=sys.stderr, flush=True)
    plan = run.Plan(
        seed=options.seed, kind="test", seconds=0, subscriptions=1500, pairs=0, calendar=["--month", "400"],
        replicas=2, kills_per_minute=0, upsets_per_minute=0, long_faults=0, steps_clocks=False, batches=1, grace=15_000,
        settings={"REPRICER_CHANGE_PRICE_RATE": RATE, "REPRICER_STATUS_RATE": RATE, "REPRICER_RECONCILE_EVERY": "15s",
                  "REPRICER_SILENT_AFTER": "20s",
                  "REPRICER_DRAIN_WAIT": "1s" if options.plant == "proxy" else "3s"},
        limits={"changePrice": RATE, "status": RATE, "history": RATE})
    Nginx.plant = options.plant
    worlds.Door = Nginx
    os.environ.setdefault("REPRICER_FULL_DISK", "/nonexistent")
    world = World(root(), options.old, f"{root()}/.repricer/upgrade", plan, say)
    outages, posters, failures = None, None, []
    try:
        world.build()
        outages = Outages(world, say)
        run.submit(world, world.batch_file, "Upgrade")
        outages.goes_on()
        with open(f"{world.store.folder}/subscriptions.ndjson") as file:
            payloads = [line.strip().encode() for line in file][:200]
        port = int(re.search(r"listen 127\.0\.0\.1:(\d+)", open(f"{world.door.folder}/nginx.conf").read()).group(1))
        upgrade = Upgrade(world, options, say)
        world.programs = options.new
        # Before the replicas came up nginx found nobody, and asks nobody until fail_timeout has passed.
        wait_for(30, "nginx", lambda: status_of(port, "/notifications", payloads[0]) == 200)
        posters = Posters(port, payloads)
        time.sleep(2)
        before, new_before = upgrade.calls(), upgrade.notifications()
        seen = len(world.door.posts_of_the_store())
        figures = {"migrate_seconds": upgrade.migrate(
            "quiet", UNMARKED if options.plant == "unmarked" else QUIET)}
        # The old program goes on, then one starts on a schema that it does not know; then come the new ones.
        figures["stop_seconds"] = [upgrade.replace(world.replicas[0], f"{options.old}/repricer")]
        figures["stop_seconds"] += [
            upgrade.replace(replica, f"{options.new}/repricer") for replica in world.replicas]
        time.sleep(2)
        posters.stop()
        # What the store told meanwhile is new, unlike what the posters sent.
        new, told = upgrade.notifications() - new_before, world.door.posts_of_the_store()[seen:]
        failed_new = [status for status in told if status != "200"]
        unknown = lambda: int(world.cluster.sql("SELECT count(*) FROM repricer.store_calls WHERE state = 'unknown'")[0])
        end = time.time() + 30
        while unknown() and time.time() < end:
            time.sleep(0.5)
        figures |= {
            "posts": posters.posted, "failed_posts": len(posters.failed),
            "posts_of_new_ones": len(told), "failed_posts_of_new_ones": len(failed_new), "new_notifications": new,
            "slowest_post_seconds": round(posters.slowest, 2), "calls": upgrade.calls() - before,
            "calls_tried_again": int(world.cluster.sql(
                "SELECT count(*) FROM repricer.store_calls WHERE attempts > 1")[0]),
            "calls_without_answer": unknown()}
        is_kept = not posters.failed and not failed_new and figures["posts_of_new_ones"] > 0 and new > 0 \
            and figures["calls"] > 0 and figures["calls_without_answer"] == 0
        print(json.dumps({"upgrade": "rolling", "ok": is_kept, **figures}), flush=True)
        if posters.failed:
            say(f"failed posts: {sorted(set(posters.failed))}")
        if failed_new:
            say(f"failed posts of the store: {sorted(set(failed_new))}")
        failures += [] if is_kept else ["rolling"]
        if not options.plant:
            figures = upgrade.breaking()
            is_kept = figures["alive_when_applied"] == 0 and figures["calls_afterwards"] == 0
            print(json.dumps({"upgrade": "breaking", "ok": is_kept, **figures}), flush=True)
            failures += [] if is_kept else ["breaking"]
            outages.goes_on()
            failures += settle_and_audit(world, outages, say, has_lost=False)
    finally:
        if posters:
            posters.stop()
        if outages:
            outages.close()
        world.close()
    if failures:
        say(f"upgrade-check: {', '.join(failures)}; everything is kept in {world.folder}")
    else:
        shutil.rmtree(world.folder)
    if options.plant:
        say(f"upgrade-check: the planted fault was {'found' if failures else 'NOT found'}")
        return 0 if failures else 1
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Broken as broken:
        print(f"upgrade-check: {broken}; see .repricer/upgrade", file=sys.stderr)
        # A replica that can't start on the new schema is how this plant shows itself, too.
        if is_found := "unmarked" in sys.argv and str(broken).startswith("the replica "):
            print("upgrade-check: the planted fault was found", file=sys.stderr)
        sys.exit(0 if is_found else 1)
    except KeyboardInterrupt:
        sys.exit(130)
