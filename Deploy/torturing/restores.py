"""Restores a backup under delivery: dump, go on, lose the database, restore it, serve again, with `recover` and without.

Stores differ in what they do with a price that an item was given before by a call which the ledger has forgotten: they
refuse its stale consistency token, take it once more, or refuse it with 4000205."""

import collections
import json
import os
import shutil
import subprocess
import time

import audit
import evidence
import run
from look import Look
from world import Broken, World, as_owner, give_to_owner, stop_process, wait_for

RATE = 25
STORES = ["stale-token", "accepted", "refused"]
OPEN = "SELECT count(*) FROM repricer.price_changes WHERE state IN ('queued', 'sending', 'unknown')"
CALLED = "SELECT count(*) FROM repricer.price_changes WHERE sent_at IS NOT NULL"
DISOWNED = {"awaiting_approval", "queued", "rejected", "ineligible", "missed", "aborted"}


class Restore:
    """One world whose database is restored once."""

    def __init__(self, options, store, recovers, say):
        self.store, self.recovers, self.plants, self.say = store, recovers, options.plant, say
        plan = run.Plan(
            seed=options.seed, kind="test", seconds=0, subscriptions=600, pairs=0,
            calendar=["--month", "3000", "--repeats", store], replicas=2, kills_per_minute=0, upsets_per_minute=0,
            long_faults=0, steps_clocks=False, batches=1, grace=15_000,
            settings={"REPRICER_CHANGE_PRICE_RATE": RATE, "REPRICER_STATUS_RATE": RATE},
            limits={"changePrice": RATE, "status": RATE, "history": RATE})
        name = f"{store}-{'recover' if recovers else 'serve'}-{type(self).__name__}"
        self.world = World(options.root, options.programs, f"{options.root}/.repricer/restores/{name}", plan, say)
        # What the auditor's evidence wants to know.
        self.absences, self.outages, self.stops = [], [], []

    def count(self, query):
        return int(self.world.cluster.sql(query)[0])

    def rehearse(self):
        world = self.world
        world.build()
        run.submit(world, world.batch_file, "Restored")
        wait_for(60, "the first hundred calls", lambda: self.count(CALLED) >= 100)
        lost_since, backup = self._back_up()
        dumped = self.count(CALLED)
        wait_for(60, "calls after the dump", lambda: self.count(CALLED) >= dumped + 200)
        for replica in world.replicas:
            replica.kill()
        called = self.count(CALLED)
        began = time.time()
        self._restore(backup)
        figures = {"called_before_dump": dumped, "forgotten": called - self.count(CALLED)}
        if self.plants:
            self._hide()
        if self.recovers:
            # Clocks and the dump's own time: a little earlier does no harm.
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(lost_since - 5))
            done = world.ask("recover", "--lost-since", since, "--json", user="repricerd", timeout=400)
            if done.returncode != 0:
                raise Broken(f"recover exits with {done.returncode}: {done.stderr[-500:]}")
            found = json.loads(done.stdout)
            figures |= {key: sum(batch[key] for batch in found["batches"]) for key in ("adopted", "released")}
        for replica in world.replicas:
            replica.start()
        wait_for(300, "an end of all rows", lambda: self.count(OPEN) == 0)
        figures["seconds"] = round(time.time() - began)
        world.hooks.is_calm = True
        run.settle(world)
        run.close(world, self)
        return figures, self._wrong()

    def _program(self, name, *words):
        path = os.path.dirname(self.world.cluster.psql) + "/" + name
        done = subprocess.run([path, *words], capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise Broken(f"{name}: {done.stderr[-500:]}")

    def _back_up(self):
        """The instant up to which it will be restored, and the backup."""
        lost_since, dump = time.time(), f"{self.world.folder}/dump"
        self._program("pg_dump", "-Fc", "-f", dump, self.world.cluster.urls["postgres"])
        return lost_since, dump

    def _restore(self, dump):
        cluster = self.world.cluster
        if self.recovers:
            cluster.sql("DROP DATABASE repricer WITH (FORCE)", url=cluster.template)
            cluster.sql("CREATE DATABASE repricer", url=cluster.template)
        else:
            # As where nobody may drop the database: it is the same one afterwards, with other tables. Sessions of the
            # service that was killed may last for a moment, and hold locks.
            cluster.sql("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                        " WHERE datname = 'repricer' AND pid <> pg_backend_pid() AND backend_type = 'client backend'")
            cluster.sql("DROP SCHEMA repricer, report CASCADE")
        self._program("pg_restore", "-d", cluster.urls["postgres"], dump)

    def _hide(self):
        """The plant: a restored database that looks as if nothing had happened, with rows that nothing speaks for."""
        self.world.cluster.sql(
            "UPDATE repricer.service_controls SET database_identity = repricer.database_identity();"
            " UPDATE repricer.history_reading SET read_through = clock_timestamp(), window_start = NULL,"
            " window_end = NULL, pass = NULL, slice_start = NULL, page_token = NULL")

    def _wrong(self):
        """What must not be: prices applied twice, prices that the ledger disowns, checks that do not tell of it."""
        look = Look(evidence.gather(self.world, self))
        wrong, disowned = list(audit.applied_once(look)[1]), disowned_by(look)
        failing = {
            row["check_name"]: row["problems"] for row in self.world.cluster.rows(
                "SELECT check_name, problems FROM report.reconciliation WHERE NOT is_ok")}
        if len(disowned) > failing.get("ended_yet_applied", 0):
            wrong.append(f"{len(disowned)} are disowned, and report.reconciliation tells of"
                         f" {failing.get('ended_yet_applied', 0)}")
        return wrong + disowned + [f"report.reconciliation: {failing}"] * bool(failing)


class PointInTime(Restore):
    """The same by a base backup and the WAL since then, up to an instant between two calls."""

    def _back_up(self):
        cluster, folder = self.world.cluster, self.world.folder
        programs = os.path.dirname(cluster.psql)
        self.wal, base = f"{folder}/wal", f"{folder}/base"
        for path in (self.wal, base):
            os.makedirs(path)
            os.chmod(path, 0o700)
            give_to_owner(path)
        cluster.sql("SELECT pg_create_physical_replication_slot('archive')", url=cluster.template)
        self.receiver = subprocess.Popen(
            [*as_owner(), f"{programs}/pg_receivewal", "-D", self.wal, "-S", "archive", "--synchronous",
             "-d", cluster.template], cwd="/", stderr=subprocess.DEVNULL)
        done = subprocess.run(
            [*as_owner(), f"{programs}/pg_basebackup", "-D", base, "-X", "fetch", "-c", "fast", "-d", cluster.template],
            capture_output=True, text=True, timeout=120, cwd="/")
        if done.returncode != 0:
            raise Broken(f"pg_basebackup: {done.stderr[-500:]}")
        # Calls that the archive alone knows.
        copied = self.count(CALLED)
        wait_for(60, "calls after the base backup", lambda: self.count(CALLED) >= copied + 50)
        self.target = cluster.sql("SELECT clock_timestamp()")[0]
        self.copied = copied
        return time.time(), base

    def _restore(self, base):
        cluster = self.world.cluster
        stop_process(self.receiver, 10)
        cluster.stop()
        data = f"{cluster.folder}/data"
        shutil.rmtree(data)
        shutil.move(base, data)
        for name in os.listdir(self.wal):
            if name.endswith(".partial"):
                os.rename(f"{self.wal}/{name}", f"{self.wal}/{name.removesuffix('.partial')}")
        with open(f"{data}/postgresql.auto.conf", "a") as file:
            file.write(f"restore_command = 'cp {self.wal}/%f %p'\nrecovery_target_time = '{self.target}'\n"
                       "recovery_target_action = promote\n")
        open(f"{data}/recovery.signal", "w").close()
        give_to_owner(f"{data}/recovery.signal")
        cluster._run("start", cluster.folder)
        wait_for(60, "the end of recovery", lambda: cluster.sql("SELECT pg_is_in_recovery()") == ["f"])
        if not self.count(CALLED) > self.copied:
            raise Broken("the WAL since the base backup was not applied")


def disowned_by(look):
    """Prices that the store applied and that no change in the ledger goes on with."""
    states = collections.defaultdict(set)
    for change in look.changes:
        states[(change["subscription"], change["sku"], change["price"])].add(change["state"])
    return [
        f"{call['subscription']} {item['sku']}: applied as {call['id']}, and {sorted(known)}"
        for call, item in look.first_applications()
        if not (known := states[(call["subscription"], item["sku"], item["price"])]) - DISOWNED]


def main(options, say):
    """Every store from a dump, without `recover` and with it, and one by point in time; the names of those that failed."""
    failures = []
    ways = [(Restore, store, recovers) for store in STORES for recovers in (False, True)]
    for kind, store, recovers in [*ways, (PointInTime, STORES[0], True)]:
        if options.store in (None, store):
            restore = kind(options, store, recovers, say)
            way = ("recover" if recovers else "serve") + (" to an instant" if kind is PointInTime else "")
            say(f"restore: a store of kind {store}, {way}")
            try:
                figures, wrong = restore.rehearse()
            except (Broken, OSError, subprocess.SubprocessError) as broken:
                figures, wrong = {}, [str(broken)]
            finally:
                restore.world.close()
            is_kept = not wrong
            print(json.dumps({
                "outage": "restore", "store": store, "way": way, "ok": is_kept, **figures,
                "wrong": len(wrong)}), flush=True)
            for text in wrong[:5]:
                say(text)
            if is_kept:
                shutil.rmtree(restore.world.folder)
            else:
                failures.append(f"restore {store} {way}")
    return failures
