"""Takes from a running world what its database knew last: a dump is restored, or a standby that lagged is promoted.

Everything else goes on meanwhile. People decide nothing in such a time (`World.people`): what they did would have to be done
again, as the runbook says, and is no question to the product.
"""

import os
import random
import signal
import subprocess
import threading
import time

from world import Broken, as_owner, give_to_owner, readdress

# What goes on after the dump, or after the stream has stopped, is lost.
LOST_SECONDS = (3, 7)
# Commits of so long before the stream stops may not have arrived.
LAG_MS = 2000


class Losses:
    """A thread of its own. `trouble.losses` says what was lost, and when."""

    def __init__(self, world, trouble, names, seconds):
        self.world, self.trouble, self.names, self.seconds = world, trouble, names, seconds
        self.chance = random.Random(f"{world.plan.seed} losses")
        self.failure = None
        # The instant, by the business clock, since when a person is to recover.
        self.unrecovered = None
        self.thread = threading.Thread(target=self._guarded, daemon=True)

    def finish(self):
        """Once the trouble is over."""
        self.thread.join(timeout=300)
        if self.thread.is_alive():
            raise Broken("a loss did not end")
        if self.failure:
            raise self.failure
        if len(self.trouble.losses) < len(self.names):
            raise Broken(f"of {', '.join(self.names)} only {len(self.trouble.losses)} came about")
        if self.unrecovered:
            self._recover()

    def _guarded(self):
        try:
            self._run()
        except (Broken, OSError, subprocess.SubprocessError) as error:
            self.failure = Broken(f"losses: {error}")

    def _run(self):
        begin = time.time()
        # Early enough that delivery goes on in the trouble after it.
        dues = sorted(self.chance.uniform(0.2, 0.6) for _ in self.names)
        for due, name in zip(dues, self.names):
            if self.trouble.ending.wait(max(0, begin + self.seconds * due - time.time())):
                return
            with self.world.people:
                {"restore": self._restore, "failover": self._fail_over}[name]()

    def _restore(self):
        """Dumps, lets everything go on, and restores the dump into a new database."""
        cluster, dump = self.world.cluster, f"{self.world.folder}/dump"
        with cluster.lock:
            since, business = round(time.time() * 1000), self._business()
            self._program("pg_dump", "-Fc", "-f", dump, cluster.urls["postgres"])
        time.sleep(self.chance.uniform(*LOST_SECONDS))

        def restore():
            cluster.sql("DROP DATABASE repricer WITH (FORCE)", url=cluster.template)
            cluster.sql("CREATE DATABASE repricer", url=cluster.template)
            self._program("pg_restore", "-d", cluster.urls["postgres"], dump)

        self._lose("restore", since, business, restore)

    def _fail_over(self):
        """Makes a standby that nobody waits for, stops its stream, ends the primary at once and promotes."""
        cluster = self.world.cluster
        folder = f"{self.world.folder}/standby{len(self.trouble.losses)}"
        with cluster.lock:
            self._stand_by(folder)
            since, business = round(time.time() * 1000) - LAG_MS, self._business()
            url = cluster.url_in(folder, "postgres")
            receiver = int(cluster.sql("SELECT pid FROM pg_stat_wal_receiver", url=url)[0])
            # As a network that stands still: what is committed from here on does not arrive.
            os.kill(receiver, signal.SIGSTOP)
        time.sleep(self.chance.uniform(*LOST_SECONDS))

        def promote():
            cluster.stop()
            os.kill(receiver, signal.SIGKILL)
            end = time.time() + 60
            while True:
                try:
                    # Its server processes start anew where one of them was killed.
                    if cluster.sql("SELECT pg_is_in_recovery()", url=url) == ["f"]:
                        break
                    cluster.sql("SELECT pg_promote(false)", url=url)
                except OSError:
                    pass
                if time.time() > end:
                    raise Broken("the standby is not promoted")
                time.sleep(0.2)
            cluster.move(folder)
            for name in os.listdir(self.world.folder):
                user = name.removesuffix(".env")
                if name.endswith(".env"):
                    readdress(
                        f"{self.world.folder}/{name}",
                        cluster.urls["repricerd" if user.startswith("replica") else user])

        self._lose("failover", since, business, promote)

    def _stand_by(self, folder):
        cluster = self.world.cluster
        os.makedirs(folder)
        give_to_owner(folder)
        with open(f"{cluster.folder}/socket.path") as file:
            socket = file.read().strip()
        self._program(
            "pg_basebackup", "-D", f"{folder}/data", "-R", "-c", "fast", "-d",
            f"host={socket} port=5432 user=postgres application_name=standby", as_user=as_owner())
        cluster.start_in(folder)
        end = time.time() + 30
        while cluster.sql("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") != ["1"]:
            if time.time() > end:
                raise Broken("the standby does not follow")
            time.sleep(0.1)

    def _lose(self, name, since, business, act):
        """All replicas die, the database is another one, and they start again."""
        trouble, replicas = self.trouble, self.world.replicas
        for replica in replicas:
            replica.lock.acquire()
        try:
            with self.world.cluster.lock:
                for replica in replicas:
                    self._end(replica)
                began = round(time.time() * 1000)
                act()
                until = round(time.time() * 1000)
                trouble.outages.append([began, until])
                trouble.losses.append({"what": name, "from": since, "to": until})
                trouble.cluster_rests_until = time.time() + 3
            recovers = self.chance.random() < 0.5
            trouble._note(f"lost by {name}", "recover" if recovers else "serve alone")
            if recovers:
                self.unrecovered = business
            for replica in replicas:
                replica.start()
        finally:
            for replica in replicas:
                replica.lock.release()

    def _end(self, replica):
        if replica.frozen_since is not None:
            replica.frozen_since["to"] = round(time.time() * 1000)
            replica.frozen_since = None
        if replica.is_alive:
            self.trouble._absent(replica, "kill")
            replica.kill()
        replica.process, replica.back_at = None, None

    def _recover(self):
        """A person's part, once nothing breaks any more: `serve` went on by itself meanwhile."""
        try:
            done = self.world.ask("recover", "--lost-since", self.unrecovered, user="repricerd", timeout=400)
        except subprocess.TimeoutExpired as error:
            raise Broken(f"recover does not end: {error}") from error
        # 1: there are statuses that could not be read, and their rows wait.
        if done.returncode not in (0, 1):
            raise Broken(f"recover exits with {done.returncode}: {done.stderr[-300:]}")

    def _business(self):
        """Five seconds ago by the business clock, as text: a little earlier does no harm."""
        at = self.world.store.now() - 5000 * self.world.plan.speed
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at / 1000))

    def _program(self, name, *words, as_user=()):
        path = os.path.dirname(self.world.cluster.psql) + "/" + name
        done = subprocess.run(
            [*as_user, path, *words], capture_output=True, text=True, timeout=120, cwd="/" if as_user else None)
        if done.returncode != 0:
            raise Broken(f"{name}: {done.stderr[-500:]}")
