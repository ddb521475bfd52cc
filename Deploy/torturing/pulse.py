"""Measures how long the machine keeps a process waiting: `pulse.py FILE` writes a line `from to` for each time that a
nap of 5 ms took a millisecond too long, UTC milliseconds. As nice as the replicas, so that it waits as they do."""

import sys
import time

NAP = 0.005
LATE = 0.001


def main(path):
    with open(path, "a", buffering=1) as file:
        before = time.monotonic()
        while True:
            time.sleep(NAP)
            now = time.monotonic()
            late = now - before - NAP
            if late > LATE:
                end = time.time()
                file.write(f"{round((end - late) * 1000)} {round(end * 1000)}\n")
            before = now


if __name__ == "__main__":
    main(sys.argv[1])
