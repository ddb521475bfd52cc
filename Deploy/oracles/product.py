"""The programs under test, started as a user would: a private PostgreSQL, the simulated App Store's keys, `repricer`."""

import json
import os
import shutil
import signal
import subprocess
import time

START_WITHIN = 60


class Broken(Exception):
    """The surroundings do not work: no verdict about the product."""


class Cluster:
    """One PostgreSQL for all worlds; each gets a database."""

    def __init__(self, root, folder):
        self.script, self.folder = f"{root}/Deploy/postgres-private", folder
        self.psql = f"{self._run('programs')}/psql"
        self._run("start", folder, "--volatile")

    def _run(self, *words):
        done = subprocess.run([self.script, *words], capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise Broken(f"postgres-private {words[0]}: {done.stderr.strip()}")
        return done.stdout.strip()

    def url(self, *words):
        return self._run("url", self.folder, *words)

    def sql(self, text, database="postgres"):
        done = subprocess.run(
            [self.psql, "-XAqt", "-v", "ON_ERROR_STOP=1", self.url(database)],
            input=text, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise Broken(f"psql: {done.stderr.strip()}")
        return [line for line in done.stdout.split("\n") if line]

    def stop(self):
        self._run("stop", self.folder)


class Answer:
    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def lines(self):
        return [json.loads(line) for line in self.out.split("\n") if line]


class Product:
    """One installation: a database of its own, and a clock that stands almost still at `now`."""

    APP = {"REPRICER_BUNDLE_ID": "com.example.stream", "REPRICER_APP_APPLE_ID": "1234567890"}

    def __init__(self, cluster, programs, store, folder, name, environment="Production"):
        self.cluster, self.name, self.folder = cluster, name, folder
        self.program = f"{programs}/repricer"
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        cluster.sql(f"DROP DATABASE IF EXISTS {name}; CREATE DATABASE {name};")
        self.settings = {
            **self.APP, "REPRICER_ENVIRONMENT": environment,
            "REPRICER_ISSUER_ID": "57246542-96fe-1a63-e053-0824d011072a", "REPRICER_KEY_ID": "2X9R4HXF34",
            "REPRICER_KEY_FILE": f"{store}/key.p8", "REPRICER_ROOT_CERTIFICATES": f"{store}/root.pem",
            # Nobody answers there: what is judged here calls nobody. A virtual clock wants an App Store on this machine.
            "REPRICER_API_BASE_URL": "https://127.0.0.1:9", "REPRICER_RECONCILE_EVERY": "off",
            "REPRICER_PAGES_LISTEN": "off",
        }
        self.set_clock(0)
        self.users = {}

    def set_clock(self, now):
        """The clock starts anew at `now` and goes on a thousandth as fast as a wall's."""
        from dates import text_of
        if now:
            self.settings["REPRICER_CLOCK"] = f"{text_of(now)}@0.001@{int(time.time() * 1000)}"

    def migrate(self):
        self.expect(0, "migrate")

    def run(self, *words, text=None, user=None, timeout=300):
        settings = dict(self.settings, REPRICER_DATABASE_URL=self.cluster.url(self.name, user or "postgres"))
        return Answer(subprocess.run(
            [self.program, *words], input=text, capture_output=True, text=True, timeout=timeout,
            env={**os.environ, **settings, "NO_COLOR": "1"}))

    def expect(self, code, *words, **named):
        answer = self.run(*words, **named)
        if answer.code != code:
            raise Broken(f"repricer {' '.join(words)} exits {answer.code}, not {code}: {answer.err.strip()[-2000:]}")
        return answer

    def ingest(self, payloads):
        """Takes signed notifications in and folds them."""
        text = "".join(json.dumps({"signedPayload": each}) + "\n" for each in payloads)
        answer = self.expect(0, "ingest", text=text)
        self._fold()
        return answer

    def _fold(self):
        settings = dict(
            self.settings, REPRICER_DATABASE_URL=self.cluster.url(self.name, "postgres"),
            REPRICER_LISTEN="127.0.0.1:0")
        with open(f"{self.folder}/serve.log", "ab") as log:
            service = subprocess.Popen(
                [self.program, "serve"], env={**os.environ, **settings}, stdout=log, stderr=log)
        began = time.time()
        try:
            while self.cluster.sql("SELECT count(*) FROM repricer.inbox", self.name) != ["0"]:
                if service.poll() is not None or time.time() - began > START_WITHIN * 5:
                    raise Broken(f"serve folds nothing; see {self.folder}/serve.log")
                time.sleep(0.2)
        finally:
            if service.poll() is None:
                service.send_signal(signal.SIGTERM)
            service.wait(60)

    def drop(self):
        self.cluster.sql(f"DROP DATABASE IF EXISTS {self.name} WITH (FORCE)")
