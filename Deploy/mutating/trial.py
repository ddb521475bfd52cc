"""A package of Pricing with every mutant in it, and the tests that are run on each."""
import hashlib
import json
import os
import pathlib
import re
import selectors
import signal
import subprocess
import tempfile
import time

from mutants import FILES, ROOT
from schemata import SUPPORT, File

PACKAGE = """// swift-tools-version: 6.2
import PackageDescription
let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6), .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
]
let package = Package(
    name: "repricer",
    targets: [
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl"),
        .target(name: "ServiceKit", swiftSettings: settings), .target(name: "JSON", swiftSettings: settings),
        .target(name: "Digests", dependencies: ["COpenSSL", "ServiceKit"], swiftSettings: settings),
        .target(name: "Pricing", dependencies: ["JSON", "Digests"], swiftSettings: settings),
        .target(
            name: "FoldStories", dependencies: ["Pricing"], path: "Tests/FoldStories", swiftSettings: settings),
        .target(name: "TestSupport", dependencies: ["Pricing", "ServiceKit"], path: "Tests/TestSupport"),
        .testTarget(
            name: "PricingTests", dependencies: ["Pricing", "Digests", "FoldStories", "TestSupport"],
            swiftSettings: settings),
    ])
"""
PROGRAM = ".build/debug/repricerPackageTests.xctest"
# The slow suites, run in this order, and only where the quick tests find nothing.
SLOW = ["PlanPropertyTests", "FoldOrderTests"]
FAILURE = re.compile(r"✘\S* Test .* recorded an issue .*?at (\w+)\.swift:")
ERROR = re.compile(r"/Sources/Pricing/(\S+\.swift):(\d+):\d+: error: (.*)")


class Unbuildable(Exception):
    """The sources don't compile, for another reason than a mutant."""


def make(folder):
    """The package, linked to the files here but for Pricing itself. What a former run built there is used again."""
    for name in ["Sources/Pricing", "Tests/TestSupport"]:
        (folder / name).mkdir(parents=True, exist_ok=True)
    links = [f"Sources/{name}" for name in ["COpenSSL", "Digests", "JSON", "ServiceKit"]]
    links += ["Tests/PricingTests", "Tests/FoldStories"]
    links += [f"Tests/TestSupport/{name}.swift" for name in ["OwnThread", "ShippedRules", "RepositoryFiles"]]
    origins = {name: ROOT / name for name in links}
    for name, origin in origins.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(origin)
    wanted = {path.relative_to(ROOT): path.read_text() for path in (ROOT / "Sources/Pricing").rglob("*.swift")}
    wanted |= {pathlib.Path("Sources/Pricing/Mutant.swift"): SUPPORT, pathlib.Path("Package.swift"): PACKAGE}
    for path in (folder / "Sources/Pricing").rglob("*.swift"):
        if path.relative_to(folder) not in wanted:
            path.unlink()
    rewritten = {f"Sources/Pricing/{name}" for name in FILES}
    for name, text in wanted.items():
        if str(name) not in rewritten:
            write(folder / name, text)


def write(path, text):
    """Writes a file where it says something else, so that the compiler sees only what changed."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def build(folder, mutants):
    """Builds all mutants in one go, and returns the numbers of those that the compiler refuses.

    An error tells the line, and the line the mutant, which is then left out. Some errors show only when the others are
    gone.
    """
    files = {
        name: File((ROOT / "Sources/Pricing" / name).read_text(), [m for m in mutants if m.file == name])
        for name in FILES
    }
    kept = Refusals(folder / "refused.json", mutants)
    refused = {number for file in files.values() for number in file.unset()} | kept.known()
    while True:
        owners = {}
        for name, file in files.items():
            text, owners[name] = file.rewritten(refused)
            write(folder / "Sources/Pricing" / name, text)
        done = subprocess.run(
            ["swift", "build", "--build-tests"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True)
        if done.returncode == 0:
            kept.keep(refused)
            return refused
        errors = set(ERROR.findall(done.stdout))
        new = set()
        for name, line, words in errors:
            number = owners.get(name, {})[int(line)] if name in owners else None
            if number is None:
                raise Unbuildable(f"{name}:{line}: {words}")
            new.add(number)
        if not new:
            raise Unbuildable("\n".join(line for line in done.stdout.split("\n") if " error: " in line)[-3000:])
        refused |= new


class Refusals:
    """What the compiler refused the last time, so that an unchanged source is not built anew. It holds for a file as it
    was then."""

    def __init__(self, path, mutants):
        self.path, self.mutants = path, mutants
        self.texts = {name: hashlib.sha256((ROOT / "Sources/Pricing" / name).read_bytes()).hexdigest() for name in FILES}

    def _name(self, mutant):
        return f"{self.texts[mutant.file]} {mutant.start} {mutant.end} {mutant.new}"

    def known(self):
        try:
            names = set(json.loads(self.path.read_text()))
        except (OSError, ValueError):
            return set()
        return {mutant.number for mutant in self.mutants if self._name(mutant) in names}

    def keep(self, refused):
        write(self.path, json.dumps(sorted(self._name(m) for m in self.mutants if m.number in refused)))


def program(number, seconds, *options):
    """The tests with a mutant, and so many seconds of a core: it may loop for ever, and the machine may be busy."""
    # To print the stack of a crash takes longer than the tests.
    return ["prlimit", f"--cpu={seconds}", PROGRAM, "--testing-library", "swift-testing", *options], {
        **os.environ, "REPRICER_MUTANT": str(number), "SWIFT_BACKTRACE": "enable=no"}


def passes(folder, number, seconds, *choice, finders=None):
    """Whether the chosen tests pass with a mutant; the first failure is enough. Its suite is counted in `finders`."""
    command, environment = program(number, seconds, *choice)
    # A session of its own, so that it can be ended whole.
    tests = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        start_new_session=True, env=environment)
    # One that neither works nor ends.
    end, said = time.monotonic() + 40 * seconds, b""
    with selectors.DefaultSelector() as selector:
        selector.register(tests.stdout, selectors.EVENT_READ)
        while (left := end - time.monotonic()) > 0 and "✘".encode() not in said:
            if not selector.select(left):
                break
            chunk = os.read(tests.stdout.fileno(), 65536)
            if not chunk:
                if b"Test run with 0 tests" in said:
                    raise RuntimeError(f"no test fits {' '.join(choice)}")
                return tests.wait() == 0
            said = said[-16:] + chunk
    os.killpg(tests.pid, signal.SIGKILL)
    tests.wait()
    tests.stdout.close()
    for suite in FAILURE.findall(said.decode(errors="replace"))[:1] if finders is not None else []:
        finders[suite] += 1
    return False


def survives_quick(folder, number, seconds, finders):
    """Whether a mutant passes the quick tests: first those that found its neighbours, then all of them."""
    likely = "|".join(suite for suite, _ in finders.most_common(3))
    return (
        (not likely or passes(folder, number, seconds, "--filter", likely, finders=finders))
        and passes(folder, number, seconds, "--skip", "|".join(SLOW), finders=finders))


def answers(folder, number, cases, seconds):
    """What the rules say in so many random cases with a mutant, one line a case; fewer where it crashes or loops."""
    with tempfile.NamedTemporaryFile("r") as file:
        command, environment = program(number, seconds, "--filter", "RandomAnswers")
        try:
            subprocess.run(
                command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                timeout=40 * seconds,
                env={**environment, "REPRICER_ANSWERS": file.name, "REPRICER_CASES": str(cases)})
        except subprocess.TimeoutExpired:
            return []
        return pathlib.Path(file.name).read_text().splitlines()
