"""What goes wrong while the world runs, drawn from the seed: kills, cut connections, faults of the App Store."""

import collections
import subprocess
import threading
import time

from world import Broken

# (kind, weight, seconds of silence). All shorter than a lease lives on after its holder's death (7.5 s), so
# that the store itself must never see two calls of one subscription at a time.
CALL_FAULTS = [
    ("reset_before", 5, (0, 0)), ("reset_after", 6, (0, 0)), ("drop_before", 3, (1, 4)),
    ("drop_after", 5, (1, 4)), ("slow", 4, (1, 4)), ("late", 4, (1, 4)), ("http_500", 5, (0, 0)),
    ("garbage", 4, (0, 0)), ("hollow", 4, (0, 0)), ("refuse_repeats", 3, (0, 0)),
    ("http_429", 1, (0, 0)),
]
NOTIFICATION_FAULTS = [
    ("duplicate", 4, (0, 0)), ("reorder", 3, (1, 3)), ("delay", 3, (1, 4)), ("lose", 1, (0, 0))]


class Trouble:
    """Two threads: one kills, one orders faults. Both end with `stop`."""

    def __init__(self, world):
        self.world = world
        self.counts = collections.Counter()
        self.log = []
        self.failure = None
        self.ending = threading.Event()
        self.threads = []

    def start(self):
        for work in (self._kill, self._order_faults):
            thread = threading.Thread(target=self._guarded, args=(work,), daemon=True)
            thread.start()
            self.threads.append(thread)

    def stop(self):
        self.ending.set()
        for thread in self.threads:
            thread.join(timeout=120)
        self._try(self.world.store.clear_faults)
        if self.failure:
            raise self.failure

    @property
    def kills(self):
        return self.counts["kill replica"] + self.counts["kill postgres"]

    def _guarded(self, work):
        try:
            work()
        except (Broken, OSError, subprocess.SubprocessError) as error:
            self.failure = Broken(f"{work.__name__}: {error}")

    def _note(self, what, detail=""):
        self.counts[what] += 1
        self.log.append((time.time(), what, detail))

    def _kill(self):
        plan, chance = self.world.plan, self.world.chance["kills"]
        due = time.time()
        while True:
            # What a slow restart held up is caught up with, within reason.
            due = max(due, time.time() - 3) + chance.expovariate(plan.kills_per_minute / 60)
            if self.ending.wait(max(0, due - time.time())):
                return
            draw = chance.random()
            replica = chance.choice(self.world.replicas)
            if draw < 0.06:
                if self.world.cluster.kill():
                    self._note("kill postgres")
            elif draw < 0.10:
                self._try(self._cut_connections)
            else:
                if not replica.is_alive:
                    self._note("died by itself", f"replica {replica.number}")
                replica.kill()
                self._note("kill replica", str(replica.number))

    def _cut_connections(self):
        self.world.cluster.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'repricer serve'")
        self._note("cut connections")

    def _order_faults(self):
        chance = self.world.chance["faults"]
        rounds = 0
        while not self.ending.wait(chance.uniform(0.1, self.world.plan.fault_pause)):
            rounds += 1
            if rounds % 20 == 0:
                # What found no occasion must not pile up.
                self._try(self.world.store.clear_faults)
            draw = chance.random()
            endpoint = (
                "changePrice" if draw < 0.6 else "status" if draw < 0.75 else "notifications")
            kinds = NOTIFICATION_FAULTS if endpoint == "notifications" else CALL_FAULTS
            kind, _, (least, most) = chance.choices(kinds, [kind[1] for kind in kinds])[0]
            fault = {"endpoint": endpoint, "kind": kind, "count": chance.choice([1, 1, 1, 2, 3])}
            if kind in ("http_429", "lose"):
                fault["count"] = 1
            if most > 0:
                fault["seconds"] = round(chance.uniform(least, most), 2)
            if self._try(lambda: self.world.store.order(fault)):
                self._note(f"order {endpoint} {kind}")

    def _try(self, act):
        try:
            act()
            return True
        except (OSError, subprocess.SubprocessError):
            # Away for the moment; the next turn tries something else.
            self.counts["orders that failed"] += 1
            return False
