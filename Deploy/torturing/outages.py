"""Outages of the database and of replicas under delivery, and how long each holds it up."""

import argparse
import json
import os
import pwd
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import audit
import evidence
import run
from world import Broken, World, reap, stop_process, wait_for

RATE = 25
SETTLED = "SELECT count(*) FROM repricer.price_change_requests WHERE state IN ('answered', 'refused')"


class Outages:
    """One world, and each outage as a method that returns its figures."""

    def __init__(self, world, say):
        self.world, self.say = world, say
        self.cluster = world.cluster
        self.full_disk = os.environ["REPRICER_FULL_DISK"]
        self.folders, self.standby = [], None

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
        self._controlled("restart", "-m", "fast")
        longest = self.goes_on()
        self.cluster.kill()
        return {"seconds": max(longest, self.goes_on()), "limit": 10}

    def disk(self):
        """No table can grow for ten seconds; then there is room again."""
        open(self.full_disk, "w").close()
        refused = 0
        end = time.time() + 30
        while refused == 0 and time.time() < end:
            time.sleep(1)
            refused = self._logged("53100")
        if refused == 0:
            raise Broken("the disk was never full")
        time.sleep(10)
        os.remove(self.full_disk)
        return {"seconds": self.goes_on(), "limit": 10, "refusals": self._logged("53100")}

    def _logged(self, word):
        count = 0
        for replica in self.world.replicas:
            with open(replica.log) as log:
                count += log.read().count(word)
        return count

    def readers(self):
        """A transaction idles and four reports read, all on one old snapshot, while delivery goes on."""
        opening = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM repricer.price_changes;"
        sessions = []
        for text in [opening] + 4 * [opening + "SELECT pg_sleep(600);"]:
            session = subprocess.Popen(
                [self.cluster.psql, "-XAqt", self.cluster.urls["postgres"]],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                text=True)
            session.stdin.write(text + "\n")
            session.stdin.flush()
            sessions.append(session)
        rate = self.rate(12)
        self.cluster.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'psql'"
            " AND state IN ('idle in transaction', 'active') AND pid <> pg_backend_pid()")
        for session in sessions:
            stop_process(session, 5)
        return {"rate": round(rate, 1), "rate_least": round(RATE * 0.9, 1)}

    def replica(self):
        """A replica dies with calls out, and nobody starts it again until its work is taken over."""
        for _ in range(3):
            self.world.store.order(
                {"endpoint": "changePrice", "kind": "slow", "count": 10, "seconds": 2})
        time.sleep(1)
        victim = self.world.replicas[0]
        held = (
            "SELECT count(*) FROM repricer.price_change_requests WHERE state = 'sending'"
            " AND prepared_at <= to_timestamp({at}) AND fence = 1")
        victim.process.kill()
        victim.process.wait()
        began = time.time()
        open_then = int(self.cluster.sql(
            "SELECT count(*) FROM repricer.price_change_requests WHERE state = 'sending'")[0])
        wait_for(60, "the takeover", lambda: self.cluster.sql(held.format(at=began)) == ["0"])
        seconds = round(time.time() - began, 2)
        victim.start()
        wait_for(60, "the new replica", lambda: victim.is_ready)
        return {"seconds": seconds, "limit": 30, "calls_out": open_then}

    def stop(self):
        """SIGTERM while calls have no answer; then twice."""
        figures = {}
        victim = self.world.replicas[1]
        for name, signals, limit, codes in [("once", 1, 10, [0]), ("twice", 2, 1.5, [130])]:
            self.world.store.order(
                {"endpoint": "changePrice", "kind": "drop_after", "count": 6, "seconds": 20})
            time.sleep(2)
            began = time.time()
            for number in range(signals):
                if number:
                    time.sleep(0.5)
                    began = time.time()
                victim.process.terminate()
            code = victim.process.wait(timeout=30)
            seconds = round(time.time() - began, 2)
            if code not in codes or seconds > limit:
                raise Broken(f"SIGTERM {name}: exit code {code} after {seconds} s")
            figures[f"{name}_seconds"] = seconds
            self.world.store.clear_faults()
            victim.start()
            wait_for(60, "the replica", lambda: victim.is_ready)
        return {**figures, "seconds": figures["once_seconds"], "limit": 10}

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
        self._move(url)
        began_with = self._logged("prepared statement")
        rate = self.rate(10)
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
            "seconds": seconds, "limit": 10, "rate": round(rate, 1),
            "rate_least": round(RATE * 0.9, 1)}

    def _move(self, url):
        """All replicas to another address of the database."""
        for replica in self.world.replicas:
            readdress(replica.settings, url)
            replica.stop()
            replica.start()
        for replica in self.world.replicas:
            wait_for(60, "repricer serve", lambda: replica.is_ready)

    def failover(self):
        """The primary dies and its synchronous standby is promoted."""
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
        self.cluster.sql(
            "ALTER SYSTEM SET synchronous_standby_names = '*'; SELECT pg_reload_conf();")
        wait_for(30, "the standby", lambda: self.cluster.sql(
            "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == ["1"])
        urls = {
            user: f"postgresql:///repricer?host={primary_socket},{socket}&port=5432,5432"
            f"&user={user}&target_session_attrs=read-write" for user in self.cluster.urls}
        self._move(urls["repricerd"])
        self.goes_on()
        began = time.time()
        with open(f"{self.cluster.folder}/data/postmaster.pid") as file:
            os.kill(int(file.readline()), signal.SIGKILL)
        self.cluster.urls, self.standby = urls, standby
        for user in urls:
            settings = f"{self.world.folder}/{user}.env"
            if os.path.exists(settings):
                readdress(settings, urls[user])
        self._controlled("promote", folder=standby)
        promoted = time.time()
        self.cluster.sql("ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf();")
        seconds = self.goes_on()
        reap("postgres")
        return {
            "seconds": seconds, "limit": 10, "promotion_seconds": round(promoted - began, 2)}

    def close(self):
        if self.standby:
            self._controlled("stop", "-m", "fast", folder=self.standby)
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)


ALL = ["terminated", "restart", "readers", "disk", "replica", "stop", "pgbouncer", "failover"]


def as_owner():
    return ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []


def give_to_owner(path):
    if os.geteuid() == 0:
        owner = pwd.getpwnam("postgres")
        os.chown(path, owner.pw_uid, owner.pw_gid)


def readdress(settings, url):
    """Another address of the database in a file of settings."""
    with open(settings) as file:
        lines = [
            f"REPRICER_DATABASE_URL={url}\n" if line.startswith("REPRICER_DATABASE_URL=") else line
            for line in file]
    with open(settings, "w") as file:
        file.writelines(lines)


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
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ALL)}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--programs", help="folder of repricer and appstore-sandbox")
    options = parser.parse_args(words)
    for name in options.names:
        if name not in ALL:
            parser.error(f"there is no outage {name}")
    options.root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    options.programs = os.path.abspath(options.programs or f"{options.root}/.build/release")
    return options


def main(words):
    options = parse(words)
    names = [name for name in ALL if name in options.names or not options.names]
    say = lambda text: print(text, file=sys.stderr, flush=True)
    # As many changes as the rate can send meanwhile, and more.
    plan = run.Plan(
        seed=options.seed, kind="test", seconds=0, subscriptions=1200 + 500 * len(names),
        calendar=["--month", "400"], replicas=2, kills_per_minute=0, batches=1, grace=15_000,
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
            except Broken as broken:
                figures = {"failure": str(broken)}
            is_kept = (
                "failure" not in figures and figures.get("seconds", 0) <= figures.get("limit", 0)
                and figures.get("rate", 0) >= figures.get("rate_least", 0))
            print(json.dumps({"outage": name, "ok": is_kept, **figures}), flush=True)
            if not is_kept:
                failures.append(name)
        failures += settle_and_audit(world, say)
    finally:
        if outages:
            outages.close()
        world.close()
    if failures:
        say(f"outages: {', '.join(failures)}; everything is kept in {world.folder}")
        return 1
    shutil.rmtree(world.folder)
    return 0


def settle_and_audit(world, say):
    """Nothing was lost and nothing called twice."""
    world.ask("abort", world.cluster.sql("SELECT batch_id FROM repricer.batches")[0], user="ana")
    run.settle(world)
    stops = run.close(world)
    results = audit.audit(evidence.gather(world))
    wrong = {name: found for name, _, _, found in results if found}
    for name, found in wrong.items():
        say(f"{name}: {found[:5]}")
    for line in stops:
        say(line)
    print(json.dumps({
        "audit": {name: {"looked_at": counted, "violations": len(found)}
                  for name, _, counted, found in results}}), flush=True)
    return sorted(wrong) + (["drained"] if stops else [])


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Broken as broken:
        print(f"outages: {broken}; see .repricer/outages", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
