"""Outages of the database and of replicas under delivery, and how long each holds it up."""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import audit
import evidence
import restores
import run
from look import Look
from world import Broken, World, as_owner, give_to_owner, readdress, reap, stop_process, wait_for

RATE = 25
SETTLED = "SELECT count(*) FROM repricer.store_calls WHERE kind = 'price_change' AND state IN ('answered', 'refused')"

# Processes with a call, prepared since an instant, that has had no answer for two seconds.
HOLDERS = ("SELECT count(DISTINCT lease_owner) FROM repricer.store_calls WHERE kind = 'price_change' AND state = 'sending'"
           " AND prepared_at BETWEEN to_timestamp({since}) AND clock_timestamp() - interval '2 s'")


class Outages:
    """One world, and each outage as a method that returns its figures."""

    def __init__(self, world, say):
        self.world, self.say = world, say
        self.cluster = world.cluster
        self.full_disk = os.environ["REPRICER_FULL_DISK"]
        self.folders, self.standby = [], None
        # What the auditor is told, as by trouble.py.
        self.absences, self.outages, self.stops = [], [], []

    @contextlib.contextmanager
    def away(self):
        """Notes how long the database is away."""
        began = round(time.time() * 1000)
        yield
        self.outages.append([began, round(time.time() * 1000)])

    def dead(self, replica, why="kill"):
        self.absences.append(
            {"client": replica.client, "life": replica.life, "why": why,
             "from": round(time.time() * 1000), "to": None})

    # What delivery did.

    def settled(self):
        return int(self.cluster.sql(SETTLED)[0])

    def goes_on(self, seconds=60):
        """Seconds until a further call is settled; the database may still be away."""
        began, before = time.time(), None
        while time.time() - began < seconds:
            try:
                now = self.settled()
                if before is not None and now > before:
                    return round(time.time() - began, 2)
                before = now if before is None else before
            except OSError:
                pass
            time.sleep(0.05)
        raise Broken(f"delivery did not go on within {seconds} s")

    def calls_again(self, began):
        """Seconds from an instant until a call is made that was prepared after it."""
        made = f"SELECT count(*) FROM repricer.store_calls WHERE prepared_at > to_timestamp({began})"
        wait_for(120, "a further call", lambda: self.cluster.sql(made) != ["0"])
        return round(time.time() - began, 2)

    def rate(self, seconds):
        """Calls settled a second."""
        before, began = self.settled(), time.time()
        time.sleep(seconds)
        return (self.settled() - before) / (time.time() - began)

    def _controlled(self, *words, folder=None):
        """pg_ctl as the owner of the cluster."""
        data = f"{folder or self.cluster.folder}/data"
        log = f"{folder or self.cluster.folder}/log"
        program = os.path.dirname(self.cluster.psql) + "/pg_ctl"
        done = subprocess.run(
            [*as_owner(), program, "-D", data, "-l", log, "-w", "-t", "60", *words],
            capture_output=True, text=True, timeout=90, cwd="/", stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise Broken(f"pg_ctl {words[0]}: {done.stdout[-300:]}{done.stderr[-300:]}")

    def _folder(self):
        """A short path, as sockets need, that belongs to the cluster's owner."""
        folder = tempfile.mkdtemp(prefix="repricer-socket-", dir="/tmp")
        self.folders.append(folder)
        give_to_owner(folder)
        return folder

    # The outages.

    def terminated(self):
        """Every session of the service is terminated, five times."""
        longest = 0
        for _ in range(5):
            self.cluster.sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'repricer serve'")
            longest = max(longest, self.goes_on())
        return {"seconds": longest, "limit": 10}

    def restart(self):
        """PostgreSQL is stopped and started, then killed and started."""
        with self.away():
            self._controlled("restart", "-m", "fast")
        longest = self.goes_on()
        with self.away():
            self.cluster.kill()
        return {"seconds": max(longest, self.goes_on()), "limit": 10}

    def disk(self):
        """No table can grow for ten seconds; then there is room again."""
        before = self._refusals()
        open(self.full_disk, "w").close()
        try:
            end = time.time() + 30
            while self._refusals() == before and time.time() < end:
                time.sleep(0.5)
            if self._refusals() == before:
                raise Broken("the disk was never full")
            time.sleep(10)
        finally:
            os.remove(self.full_disk)
        return {"seconds": self.goes_on(), "limit": 10, "refusals": self._refusals() - before}

    def _refusals(self):
        """How often PostgreSQL said that there was no space."""
        with open(f"{self.cluster.folder}/log", errors="replace") as log:
            return log.read().count("No space left on device")

    def _logged(self, word):
        count = 0
        for replica in self.world.replicas:
            with open(replica.log, errors="replace") as log:
                count += log.read().count(word)
        return count

    def readers(self):
        """A transaction idles and four reports read, all on one old snapshot, while delivery goes on."""
        opening = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM repricer.price_changes;"
        before = self.rate(15)
        if before < RATE / 2:
            raise Broken(f"{before:.1f} calls a second before there is a reader")
        sessions = []
        for text in [opening] + 4 * [opening + "SELECT pg_sleep(600);"]:
            session = subprocess.Popen(
                [self.cluster.psql, "-XAqt", self.cluster.urls["postgres"]],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                text=True)
            session.stdin.write(text + "\n")
            session.stdin.flush()
            sessions.append(session)
        rate = self.rate(30)
        self.cluster.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'psql'"
            " AND state IN ('idle in transaction', 'active') AND pid <> pg_backend_pid()")
        for session in sessions:
            stop_process(session, 5)
        return {"rate": round(rate, 1), "rate_least": round(before * 0.9, 1), "rate_before": round(before, 1)}

    def replica(self):
        """A replica dies with calls out, and nobody starts it again until its work is taken over."""
        # Many claims' worth: each is one replica's, and of a few calls one alone could have all.
        self.world.store.order(
            {"endpoint": "changePrice", "kind": "slow", "count": 10 * RATE, "seconds": 8})
        holders = HOLDERS.format(since=time.time())
        wait_for(30, "calls of both replicas without an answer", lambda: self.cluster.sql(holders) == ["2"])
        victim = self.world.replicas[0]
        held = (
            "SELECT count(*) FROM repricer.store_calls WHERE kind = 'price_change' AND state = 'sending'"
            " AND prepared_at <= to_timestamp({at}) AND fence = 1")
        self.dead(victim)
        victim.process.kill()
        victim.process.wait()
        began = time.time()
        open_then = int(self.cluster.sql(
            "SELECT count(*) FROM repricer.store_calls WHERE kind = 'price_change' AND state = 'sending'")[0])
        wait_for(60, "the takeover", lambda: self.cluster.sql(held.format(at=began)) == ["0"])
        seconds = round(time.time() - began, 2)
        self.world.store.clear_faults()
        victim.start()
        wait_for(60, "the new replica", lambda: victim.is_ready)
        return {"seconds": seconds, "limit": 30, "calls_out": open_then}

    def stop(self):
        """SIGTERM while calls have no answer; then twice."""
        figures = {}
        victim = self.world.replicas[1]
        # Code 1: calls had to be left to others.
        for name, signals, limit, codes in [("once", 1, 10.5, [0, 1]), ("twice", 2, 1.5, [130])]:
            # Many claims' worth: each is one replica's, and of a few calls one alone could have all.
            self.world.store.order(
                {"endpoint": "changePrice", "kind": "drop_after", "count": 10 * RATE, "seconds": 20})
            holders = HOLDERS.format(since=time.time())
            wait_for(30, "calls of both replicas without an answer", lambda: self.cluster.sql(holders) == ["2"])
            began = time.time()
            for number in range(signals):
                if number:
                    time.sleep(0.5)
                    began = time.time()
                victim.process.terminate()
            code = victim.process.wait(timeout=30)
            seconds = round(time.time() - began, 2)
            self.dead(victim, "drain")
            if code not in codes or seconds > limit:
                raise Broken(f"SIGTERM {name}: exit code {code} after {seconds} s")
            figures[f"{name}_seconds"] = seconds
            self.world.store.clear_faults()
            victim.start()
            wait_for(60, "the replica", lambda: victim.is_ready)
        # Otherwise the calls that are left here would count in the rates of the outages that follow.
        left = ("SELECT count(*) FROM repricer.store_calls WHERE kind = 'price_change' AND settled_at IS NULL"
                f" AND prepared_at < to_timestamp({time.time()})")
        wait_for(120, "an end of all calls left", lambda: self.cluster.sql(left) == ["0"])
        return {**figures, "seconds": figures["once_seconds"], "limit": 10.5}

    def pgbouncer(self):
        """Both replicas through PgBouncer in transaction mode, with three server sessions; then it is killed."""
        folder = self._folder()
        with open(f"{self.cluster.folder}/socket.path") as file:
            socket = file.read().strip()
        with open(f"{folder}/users.txt", "w") as file:
            file.write('"repricerd" ""\n')
        with open(f"{folder}/pgbouncer.ini", "w") as file:
            file.write(
                f"[databases]\nrepricer = host={socket} port=5432\n[pgbouncer]\nlisten_addr =\n"
                f"listen_port = 5432\nunix_socket_dir = {folder}\nauth_type = trust\n"
                f"auth_file = {folder}/users.txt\npool_mode = transaction\ndefault_pool_size = 3\n"
                f"max_client_conn = 200\nlogfile = {folder}/log\n")
        for name in os.listdir(folder):
            give_to_owner(f"{folder}/{name}")
        start = lambda: subprocess.Popen(
            [shutil.which("pgbouncer") or "/usr/sbin/pgbouncer", "-q",
             *(["-u", "postgres"] if os.geteuid() == 0 else []), f"{folder}/pgbouncer.ini"])
        pooler = start()
        wait_for(10, "pgbouncer", lambda: os.path.exists(f"{folder}/.s.PGSQL.5432"))
        url = f"postgresql:///repricer?host={folder}&port=5432&user=repricerd"
        before = self.rate(15)
        self._move(url)
        began_with = self._logged("prepared statement")
        self.goes_on()
        rate = self.rate(15)
        pooler.kill()
        pooler.wait()
        os.remove(f"{folder}/.s.PGSQL.5432")
        pooler = start()
        seconds = self.goes_on()
        self._move(self.cluster.urls["repricerd"])
        stop_process(pooler, 10)
        if self._logged("prepared statement") > began_with:
            raise Broken("a statement was prepared by name through PgBouncer")
        return {
            "seconds": seconds, "limit": 10, "rate": round(rate, 1), "rate_least": round(before * 0.9, 1),
            "rate_before": round(before, 1)}

    def _move(self, url):
        """All replicas to another address of the database."""
        for replica in self.world.replicas:
            readdress(replica.settings, url)
            began = time.time()
            code, seconds = replica.stop()
            self.dead(replica, "drain")
            self.stops.append({
                "client": replica.client, "from": round(began * 1000),
                "to": round((began + seconds) * 1000), "code": code, "twice": False})
            replica.start()
        for replica in self.world.replicas:
            wait_for(60, "repricer serve", lambda: replica.is_ready)

    def failover(self):
        """The primary dies and its synchronous standby is promoted."""
        return self._fail_over(is_synchronous=True)

    def unsynchronised(self):
        """The primary dies while its standby, which it does not wait for, is two seconds behind."""
        return self._fail_over(is_synchronous=False)

    def _fail_over(self, is_synchronous):
        socket, urls, standby = self._stand_by(is_synchronous)
        self._move(urls["repricerd"])
        self.goes_on()
        if not is_synchronous:
            # As a slow network would: what is committed from here on does not arrive.
            receiver = int(self.cluster.sql(
                "SELECT pid FROM pg_stat_wal_receiver",
                url=f"postgresql:///repricer?host={socket}&port=5432&user=postgres")[0])
            os.kill(receiver, signal.SIGSTOP)
            time.sleep(2)
        began = time.time()
        self._kill_primary()
        if not is_synchronous:
            os.kill(receiver, signal.SIGKILL)
        self.cluster.urls, self.standby = urls, standby
        for user in urls:
            settings = f"{self.world.folder}/{user}.env"
            if os.path.exists(settings):
                readdress(settings, urls[user])
        self._controlled("promote", folder=standby)
        promoted = time.time()
        self.outages.append([round(began * 1000), round(promoted * 1000)])
        seconds = self.goes_on()
        reap("postgres")
        # New calls wait until none of the former database can be on its way: 40 s, and the history of that time.
        return {
            "seconds": seconds, "limit": 10, "promotion_seconds": round(promoted - began, 2),
            "new_call_seconds": self.calls_again(promoted), "new_call_limit": 60}

    def _stand_by(self, is_synchronous):
        """Makes a standby; its socket, the addresses that name both, and its folder."""
        standby = f"{self.world.folder}/standby"
        os.makedirs(standby)
        give_to_owner(standby)
        socket = self._folder()
        with open(f"{self.cluster.folder}/socket.path") as file:
            primary_socket = file.read().strip()
        program = os.path.dirname(self.cluster.psql) + "/pg_basebackup"
        done = subprocess.run(
            [*as_owner(), program, "-D", f"{standby}/data", "-R", "-c", "fast", "-d",
             f"host={primary_socket} port=5432 user=postgres application_name=standby"],
            capture_output=True, text=True, cwd="/")
        if done.returncode != 0:
            raise Broken(f"pg_basebackup: {done.stderr[-300:]}")
        with open(f"{self.cluster.folder}/private.conf") as file:
            text = file.read().replace(primary_socket, socket)
        with open(f"{standby}/private.conf", "w") as file:
            file.write(text)
        self._controlled("start", folder=standby)
        state = "async"
        if is_synchronous:
            state = "sync"
            # Each statement by itself: ALTER SYSTEM refuses a transaction.
            self.cluster.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
            self.cluster.sql("SELECT pg_reload_conf()")
        wait_for(30, "the standby", lambda: self.cluster.sql(
            f"SELECT count(*) FROM pg_stat_replication WHERE sync_state = '{state}'") == ["1"])
        urls = {
            user: f"postgresql:///repricer?host={primary_socket},{socket}&port=5432,5432"
            f"&user={user}&target_session_attrs=read-write" for user in self.cluster.urls}
        return socket, urls, standby

    def _kill_primary(self):
        with open(f"{self.cluster.folder}/data/postmaster.pid") as file:
            os.kill(int(file.readline()), signal.SIGKILL)

    def close(self):
        if self.standby:
            self._controlled("stop", "-m", "fast", folder=self.standby)
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)


# By itself: calls that the ledger does not know are no fault of what follows, and must be there to be found.
LOSES = "unsynchronised"
RESTORE = "restore"
ALL = ["terminated", "restart", "readers", "disk", "replica", "stop", "pgbouncer", "failover"]


def preload(root):
    """What PostgreSQL is started with, so that its disk can look full."""
    library = f"{root}/.repricer/full-disk.so"
    os.makedirs(os.path.dirname(library), exist_ok=True)
    subprocess.run(
        [shutil.which("clang") or "cc", "-shared", "-fPIC", "-O1", "-o", library,
         f"{root}/Deploy/torturing/full-disk.c", "-ldl"], check=True)
    os.environ["REPRICER_FULL_DISK"] = f"{root}/.repricer/outages/disk-is-full"
    os.environ["LD_PRELOAD"] = library


def parse(words):
    parser = argparse.ArgumentParser(prog="Deploy/outages", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", 
                        help=f"of {', '.join(ALL)}, {RESTORE}; or {LOSES} by itself, since it loses calls")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=restores.STORES, help="restore with this kind of store alone")
    parser.add_argument("--plant", action="store_true",
                        help="restore without the marks by which it is noticed: the audit must find calls made twice")
    parser.add_argument("--programs", help="folder of repricer and appstore-sandbox")
    options = parser.parse_args(words)
    for name in options.names:
        if name not in [*ALL, RESTORE, LOSES] or name == LOSES and len(options.names) > 1:
            parser.error(f"there is no outage {name}")
    options.root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    options.programs = os.path.abspath(options.programs or f"{options.root}/.build/release")
    return options


def main(words):
    options = parse(words)
    names = [name for name in [*ALL, LOSES] if name in options.names or not options.names and name != LOSES]
    say = lambda text: print(text, file=sys.stderr, flush=True)
    # In databases of its own, after the others.
    failures = outages_of_one_database(options, names, say) if names else []
    if RESTORE in options.names or not options.names:
        failures += restores.main(options, say)
    if failures:
        say(f"outages: {', '.join(failures)}; everything is kept in {options.root}/.repricer")
    return 1 if failures else 0


def outages_of_one_database(options, names, say):
    # As many changes as the rate can send meanwhile, and more.
    plan = run.Plan(
        seed=options.seed, kind="test", seconds=0, subscriptions=1200 + 500 * len(names), pairs=0,
        calendar=["--month", "400"], replicas=2, kills_per_minute=0, upsets_per_minute=0, long_faults=0,
        steps_clocks=False, batches=1, grace=15_000,
        settings={"REPRICER_CHANGE_PRICE_RATE": RATE, "REPRICER_STATUS_RATE": RATE,
                  "REPRICER_RECONCILE_EVERY": "15s", "REPRICER_SILENT_AFTER": "20s"},
        limits={"changePrice": RATE, "status": RATE, "history": RATE})
    world = World(options.root, options.programs, f"{options.root}/.repricer/outages", plan, say)
    outages, failures = None, []
    preload(options.root)
    try:
        world.build()
        outages = Outages(world, say)
        run.submit(world, world.batch_file, "Outages")
        outages.goes_on()
        for name in names:
            say(f"{name}: {getattr(outages, name).__doc__}")
            try:
                figures = getattr(outages, name)()
            except (Broken, OSError, subprocess.SubprocessError) as broken:
                figures = {"failure": str(broken)}
            is_kept = (
                "failure" not in figures and figures.get("seconds", 0) <= figures.get("limit", 0)
                and figures.get("new_call_seconds", 0) <= figures.get("new_call_limit", 0)
                and figures.get("rate", 0) >= figures.get("rate_least", 0))
            print(json.dumps({"outage": name, "ok": is_kept, **figures}), flush=True)
            if not is_kept:
                failures.append(name)
        wrong = settle_and_audit(world, outages, say, has_lost=names == [LOSES])
        failures += wrong
    finally:
        if outages:
            outages.close()
        world.close()
    if not failures:
        shutil.rmtree(world.folder)
    return failures


def settle_and_audit(world, outages, say, has_lost):
    """Nothing was called twice and nothing lost, but for calls that the ledger lost with its database: of these the
    prices are applied once, and none is disowned."""
    batch = world.cluster.sql("SELECT batch_id FROM repricer.batches")[0]
    world._command("abort", batch, "--reason", "the outages are over", user="ana")
    world.hooks.is_calm = True
    run.settle(world)
    run.close(world, outages)
    found = evidence.gather(world, outages)
    with open(f"{world.folder}/evidence.json", "w") as file:
        json.dump(found, file)
    results, excused = audit.audit(found)
    wrong = {name: texts for name, _, _, texts in results if texts}
    if has_lost:
        if not wrong.pop("ids_committed", None):
            wrong["ids_committed"] = ["no call was lost: nothing is proved"]
        wrong.pop("applied_in_ledger", None)
        if disowned := restores.disowned_by(Look(found)):
            wrong["disowned"] = disowned
    for name, texts in wrong.items():
        say(f"{name}: {texts[:5]}")
    print(json.dumps({
        "audit": {name: {"looked_at": counted, "violations": len(texts)}
                  for name, _, counted, texts in results}, "excused": excused}), flush=True)
    return sorted(wrong)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Broken as broken:
        print(f"outages: {broken}; see .repricer/outages", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
