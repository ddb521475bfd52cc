"""The world under torture: a private PostgreSQL, the simulated App Store, replicas, and one address before them."""

import ctypes
import glob
import json
import os
import pwd
import random
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import urllib.request

import evidence
from hooks import Receiver

PEOPLE = {"ana": "repricer_pricing", "ben": "repricer_pricing", "repricerd": "repricer_service"}


class Broken(Exception):
    """The world itself does not work: no verdict about the product."""


def free_port(chance):
    for _ in range(100):
        port = chance.randint(20000, 29999)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise Broken("found no free port on 127.0.0.1")


def adopt_orphans():
    """Makes this process the parent of a daemon's orphans: in a container nobody else may reap them."""
    become_subreaper = 36
    ctypes.CDLL(None).prctl(become_subreaper, 1, 0, 0, 0)


def reap(name):
    """Buries the adopted dead of this name: the start of a PostgreSQL takes a zombie for a living one."""
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as file:
                pid, rest = file.read().split(" (", 1)
            comm, rest = rest.rsplit(") ", 1)
            if comm == name and rest.split()[0] == "Z" and int(rest.split()[1]) == os.getpid():
                os.waitpid(int(pid), os.WNOHANG)
        except (OSError, ValueError):
            continue


class Cluster:
    """PostgreSQL as Deploy/postgres-private starts it: with its real durability settings."""

    def __init__(self, root, folder):
        self.script = f"{root}/Deploy/postgres-private"
        self.folder = folder
        self.psql = self._run("programs").strip() + "/psql"
        self.restarts = []
        # Who kills or restarts it holds this, so that two never do.
        self.lock = threading.Lock()

    def _run(self, *words, timeout=90):
        done = subprocess.run(
            [self.script, *words], capture_output=True, text=True, timeout=timeout)
        if done.returncode != 0:
            raise Broken(f"postgres-private {words[0]}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def start(self):
        self.start_in(self.folder)
        self.move(self.folder)

    def start_in(self, folder):
        self._run("start", folder)

    def url_in(self, folder, user):
        return self._run("url", folder, "repricer", user).strip()

    def move(self, folder):
        """From now on the one in this folder is meant."""
        self.folder = folder
        self.urls = {user: self.url_in(folder, user) for user in ["postgres", *PEOPLE]}
        self.template = self._run("url", folder).strip()

    def stop(self):
        """At once: a busy disk may take minutes for a last checkpoint that nobody needs."""
        pid, began = self._postmaster(), time.time()
        try:
            if pid:
                os.kill(pid, signal.SIGQUIT)
            while pid and time.time() - began < 60:
                reap("postgres")
                os.kill(pid, 0)
                time.sleep(0.02)
        except ProcessLookupError:
            pass
        self._run("stop", self.folder)

    def _postmaster(self):
        try:
            with open(f"{self.folder}/data/postmaster.pid") as file:
                return int(file.readline())
        except (OSError, ValueError):
            return None

    def kill(self):
        """kill -9 of the postmaster, then a start, as a service manager would do."""
        return self._end(signal.SIGKILL)

    def restart(self, mode):
        """As pg_ctl restart -m `mode` does."""
        return self._end({"fast": signal.SIGINT, "immediate": signal.SIGQUIT}[mode])

    def kill_backend(self):
        """kill -9 of one server process of the product: PostgreSQL ends all others and recovers."""
        try:
            found = self.sql(
                "SELECT pid FROM pg_stat_activity WHERE application_name = 'repricer serve'"
                " ORDER BY random() LIMIT 1")
            if not found:
                return False
            os.kill(int(found[0]), signal.SIGKILL)
        except OSError:
            return False
        began = time.time()
        while time.time() - began < 60:
            time.sleep(0.1)
            try:
                self.sql("SELECT 1")
                self.restarts.append(time.time() - began)
                return True
            except OSError:
                continue
        raise Broken("PostgreSQL did not recover from the kill of a backend")

    def _end(self, signal_number):
        pid = self._postmaster()
        if pid is None:
            return False
        began = time.time()
        try:
            os.kill(pid, signal_number)
            while signal_number != signal.SIGKILL and time.time() - began < 60:
                reap("postgres")
                os.kill(pid, 0)
                time.sleep(0.02)
        except ProcessLookupError:
            # A kill means that it was not there; after a polite end that is what was wanted.
            if signal_number == signal.SIGKILL:
                return False
        problem = None
        while time.time() - began < 120:
            try:
                reap("postgres")
                # The orphans of the dead postmaster must be gone first: then a start succeeds. A dead one that is
                # not buried yet passes for a living one, so only an answer counts.
                self._run("start", self.folder)
                self.sql("SELECT 1")
                self.restarts.append(time.time() - began)
                return True
            except (Broken, OSError, subprocess.TimeoutExpired) as error:
                problem = error
                time.sleep(0.2)
        raise Broken(f"PostgreSQL did not come up again: {problem}")

    def sql(self, text, user="postgres", url=None):
        """The lines of an answer; an error when the database is away."""
        done = subprocess.run(
            [self.psql, "-XAqt", "-v", "ON_ERROR_STOP=1", url or self.urls[user]],
            input=text, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise OSError(done.stderr.strip()[-300:])
        return [line for line in done.stdout.split("\n") if line]

    def rows(self, query):
        # As the programs' own connections have it: to compile a report takes longer than to answer it.
        text = f"SET timezone = 'UTC'; SET jit = off; SELECT row_to_json(answer) FROM ({query}) AS answer;"
        return [json.loads(line) for line in self.sql(text)]


class Store:
    """appstore-sandbox, on a port that it keeps."""

    def __init__(self, programs, folder, port, log):
        self.program = f"{programs}/appstore-sandbox"
        self.folder, self.port, self.log = folder, port, log
        self.process = None

    def seed(self, subscriptions, pairs, seed, calendar, batch):
        subprocess.run(
            [self.program, "seed", "--data", self.folder, "--subscriptions", str(subscriptions),
             "--pairs", str(pairs), "--seed", str(seed), *calendar, "--batch", batch],
            check=True, stdout=subprocess.DEVNULL)

    def start(self, notify, calendar):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [self.program, "serve", "--listen", f"127.0.0.1:{self.port}",
                 "--data", self.folder, "--notify", notify, *calendar], stderr=log)
        wait_for(30, "the simulated App Store", lambda: os.path.exists(self.settings_file))
        self.trust = ssl.create_default_context(cafile=f"{self.folder}/tls-ca.pem")

    @property
    def settings_file(self):
        return f"{self.folder}/sandbox.env"

    def _ask(self, method, path, body=None):
        request = urllib.request.Request(
            f"https://127.0.0.1:{self.port}{path}", method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10, context=self.trust) as answer:
            return answer.read()

    def order(self, fault):
        self._ask("POST", "/sandbox/faults", fault)

    def clear_faults(self):
        self._ask("DELETE", "/sandbox/faults")

    def state(self):
        return json.loads(self._ask("GET", "/sandbox/state"))

    def now(self):
        """UTC milliseconds of the business clock."""
        told = self.state()["now"]
        return evidence.instant(told) if isinstance(told, str) else told

    def stop(self):
        if self.process:
            stop_process(self.process, 20)
            self.process = None


class Replica:
    """One `repricer serve` and those who replace it."""

    def __init__(self, number, program, settings, port, log, clock_library):
        self.number, self.program, self.settings = number, program, settings
        self.port, self.log = port, log
        self.process = None
        # Its tokens name both as their key, so that the store's journal tells who called: which replica, and which
        # of the processes that follow one another there.
        self.client, self.life = client_of(number), 0
        self.key_id = key_id_in(settings)
        self.clock_library, self.clock = clock_library, f"{settings}.clock"
        # Who kills, freezes or ends it holds this; `back_at` is when it is to come back or to go on.
        self.lock = threading.Lock()
        self.back_at, self.frozen_since = None, None
        self.set_clock(0)

    def start(self):
        self.life += 1
        environment = {
            **os.environ, "REPRICER_KEY_ID": f"{self.key_id[:-4]}{self.client}{self.life % 1000:03}"}
        if self.clock_library:
            environment |= {
                "LD_PRELOAD": self.clock_library, "STEPPED_CLOCK": self.clock}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                ["nice", "-n", "3", self.program, "serve", "--env-file", self.settings],
                stderr=log, stdout=log, env=environment)

    def kill(self):
        """kill -9."""
        self.process.kill()
        self.process.wait()
        self.process = None

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def unfreeze(self):
        self.process.send_signal(signal.SIGCONT)

    def wait(self, seconds):
        """Its exit code; it is killed where it doesn't end."""
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None

    def set_clock(self, seconds):
        """How much its wall clock is ahead from now on."""
        # In place: processes that run have it mapped.
        descriptor = os.open(self.clock, os.O_RDWR | os.O_CREAT, 0o600)
        os.pwrite(descriptor, struct.pack("=q", round(seconds * 1_000_000)), 0)
        os.close(descriptor)

    @property
    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    @property
    def is_ready(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False

    def stop(self):
        """SIGTERM; the exit code and the seconds that it took."""
        began = time.time()
        code = stop_process(self.process, 30)
        return code, time.time() - began


class Door:
    """One TCP address before all receivers, as a load balancer would be: it chooses a live one by chance."""

    def __init__(self, port, receivers, chance):
        self.port, self.receivers, self.chance = port, receivers, chance
        self.listener = socket.create_server(("127.0.0.1", port), backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        ports = list(self.receivers)
        self.chance.shuffle(ports)
        for port in ports:
            try:
                server = socket.create_connection(("127.0.0.1", port), timeout=2)
            except OSError:
                continue
            server.settimeout(None)
            back = threading.Thread(target=self._pump, args=(server, client), daemon=True)
            back.start()
            self._pump(client, server)
            back.join()
            server.close()
            break
        client.close()

    @staticmethod
    def _pump(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()


def as_owner():
    """What lets root start a program as PostgreSQL's user. Where that user may not enter the folder that we work in, the
    program keeps the one capability that opens the way, as in Deploy/postgres-private."""
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam("postgres")
    if subprocess.run(["runuser", "-u", "postgres", "--", "test", "-x", os.getcwd()], cwd="/").returncode == 0:
        return ["runuser", "-u", "postgres", "--"]
    return [
        "setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--inh-caps=+dac_override",
        "--ambient-caps=+dac_override", "--"]


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


def key_id_in(settings):
    """The key id of a settings file."""
    with open(settings) as file:
        return re.search(r"(?m)^REPRICER_KEY_ID=(.*)$", file.read()).group(1)


def client_of(number):
    """Beyond the hexadecimal digits that the store's own key ids are made of."""
    return "PQRSTUVWXYZ"[number]


def clock_library(folder):
    """Builds what puts a process's wall clock forth and back."""
    source = f"{os.path.dirname(os.path.abspath(__file__))}/stepped-clock.c"
    path = f"{folder}/stepped-clock.so"
    compiler = shutil.which("clang") or shutil.which("cc")
    if compiler is None:
        raise Broken("there is neither clang, which comes with Swift, nor cc")
    done = subprocess.run(
        [compiler, "-O1", "-shared", "-fPIC", "-o", path, source], capture_output=True, text=True)
    if done.returncode != 0:
        raise Broken(f"stepped-clock.c: {done.stderr[-500:]}")
    return path


class Pulse:
    """The pauses that the machine itself makes."""

    def __init__(self, path):
        self.path = path
        self.process = subprocess.Popen(
            ["nice", "-n", "3", sys.executable, "-B", f"{os.path.dirname(os.path.abspath(__file__))}/pulse.py", path])

    def stalls(self):
        try:
            with open(self.path) as file:
                return [[int(word) for word in line.split()] for line in file if line.endswith("\n")]
        except OSError:
            return []

    def stop(self):
        self.process.kill()
        self.process.wait()


class Holds:
    """When the database said that calls wait until the history is read."""

    EVERY = 0.5
    # Between two readings the state is taken to be that of both, unless the database was away for longer than this.
    APART_MAX = 5

    def __init__(self, cluster):
        self.cluster, self.spans, self.ending = cluster, [], threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self):
        seen_at = None
        while not self.ending.wait(self.EVERY):
            try:
                is_held = self.cluster.sql(
                    "SELECT count(*) FROM repricer.service_controls WHERE catch_up_since IS NOT NULL") == ["1"]
            except (OSError, subprocess.TimeoutExpired):
                continue
            now = time.time()
            if not is_held:
                seen_at = None
                continue
            if seen_at is not None and now - seen_at <= self.APART_MAX:
                self.spans[-1][1] = round(now * 1000)
            else:
                self.spans.append([round(now * 1000)] * 2)
            seen_at = now

    def stop(self):
        self.ending.set()
        self.thread.join(timeout=60)


def stop_process(process, seconds):
    if process.poll() is None:
        process.terminate()
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


def wait_for(seconds, what, question):
    end = time.time() + seconds
    while time.time() < end:
        if question():
            return
        time.sleep(0.05)
    raise Broken(f"{what} did not come up in {seconds} s")


class World:
    """Everything of one round, in one folder."""

    def __init__(self, root, programs, folder, plan, say):
        self.root, self.programs, self.folder = root, programs, folder
        self.plan, self.say = plan, say
        # Each part draws from its own chance, so that one's pace does not change another's draws.
        self.chance = {
            part: random.Random(f"{plan.seed} {part}")
            for part in ("ports", "door", "kills", "upsets", "faults", "batches", "hooks", "wishes")}
        self.replicas, self.door, self.pulse, self.hooks, self.submitted = [], None, None, None, []
        self.holds = None
        # Who decides something holds it, and who is about to lose what the database knew: see losses.py.
        self.people = threading.RLock()
        # Which extensions were asked for; see wishes.py.
        self.asked = {"singles": [], "masses": []}

    def build(self):
        adopt_orphans()
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.pulse = Pulse(f"{self.folder}/stalls")
        # On a hurried clock a step of seconds would be one of weeks.
        self.clock_library = clock_library(self.folder) if self.plan.steps_clocks else None
        ports = self.chance["ports"]
        self.cluster = Cluster(self.root, f"{self.folder}/postgres")
        self.cluster.start()
        self.cluster.sql("CREATE DATABASE repricer", url=self.cluster.template)
        self._command("migrate", REPRICER_DATABASE_URL=self.cluster.urls["postgres"])
        self.cluster.sql(
            "".join(f"CREATE ROLE {user} LOGIN IN ROLE {role};" for user, role in PEOPLE.items()))
        # One approver suffices, however far the sample's prices move.
        self.cluster.sql("SELECT repricer.set_default_limits(NULL, NULL, now())")
        self.store = Store(
            self.programs, f"{self.folder}/store", free_port(ports), f"{self.folder}/store.log")
        self.batch_file = f"{self.folder}/batch.csv"
        self.store.seed(
            self.plan.subscriptions, self.plan.pairs, self.plan.seed, self.plan.calendar, self.batch_file)
        self.hooks = Receiver(self.folder, free_port(ports), self.chance["hooks"])
        with open(os.open(self.hooks.secret_file, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(self.hooks.secret + "\n")
        door_port = free_port(ports)
        self.store.start(f"http://127.0.0.1:{door_port}/notifications", self.plan.calendar)
        for user in PEOPLE:
            self._write_settings(user, user, free_port(ports))
        self._command(
            "ingest", f"{self.store.folder}/subscriptions.ndjson", user="repricerd")
        for number in range(self.plan.replicas):
            port = free_port(ports)
            settings = self._write_settings(
                f"replica{number}", "repricerd", port)
            replica = Replica(
                number, f"{self.programs}/repricer", settings, port,
                f"{self.folder}/replica{number}.log", self.clock_library)
            replica.start()
            self.replicas.append(replica)
        self.door = Door(
            door_port, [replica.port for replica in self.replicas], self.chance["door"])
        self.holds = Holds(self.cluster)
        for replica in self.replicas:
            wait_for(60, "repricer serve", lambda: replica.is_ready)
        wait_for(60, "the fold of the subscribers", self._is_folded)

    def _is_folded(self):
        return self.cluster.sql("SELECT count(*) FROM repricer.inbox") == ["0"]

    def _is_told(self):
        return self.cluster.sql("SELECT count(*) FROM repricer.webhook_deliveries WHERE state = 'pending'") == ["0"]

    def _write_settings(self, name, user, port):
        path = f"{self.folder}/{name}.env"
        with open(self.store.settings_file) as file:
            text = file.read()
        text += f"REPRICER_LISTEN=127.0.0.1:{port}\n"
        text += "REPRICER_PAGES_LISTEN=off\n"
        text += f"REPRICER_DATABASE_URL={self.cluster.urls[user]}\n"
        text += f"REPRICER_MIGRATIONS={self.root}/Migrations\n"
        text += f"REPRICER_WEBHOOK_URL={self.hooks.url}\n"
        text += f"REPRICER_WEBHOOK_SECRET_FILE={self.hooks.secret_file}\n"
        for name, value in self.plan.settings.items():
            text += f"{name}={value}\n"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        return path

    def _command(self, verb, *words, user=None, **settings):
        done = self.ask(verb, *words, user=user, **settings)
        if done.returncode != 0:
            raise Broken(f"repricer {verb} exits with {done.returncode}: {done.stderr[-500:]}")
        return done.stdout

    def ask(self, verb, *words, user=None, timeout=120, **settings):
        command = ["nice", "-n", "3", f"{self.programs}/repricer", verb]
        if user:
            command += ["--env-file", f"{self.folder}/{user}.env"]
        environment = {
            **os.environ, "REPRICER_MIGRATIONS": f"{self.root}/Migrations", **settings}
        done = subprocess.run(
            [*command, *words], capture_output=True, text=True, timeout=timeout, env=environment)
        with open(f"{self.folder}/commands.log", "a") as log:
            log.write(f"{verb} {' '.join(words)}: {done.returncode}\n{done.stderr[-2000:]}\n")
        return done

    def close(self):
        if self.pulse:
            self.pulse.stop()
        if self.holds:
            self.holds.stop()
        for replica in self.replicas:
            if replica.is_alive:
                replica.process.kill()
                replica.process.wait()
        if hasattr(self, "store"):
            self.store.stop()
        if self.door:
            self.door.close()
        if self.hooks:
            self.hooks.stop()
        if hasattr(self, "cluster"):
            self.cluster.stop()
