"""progress.py LOG TITLE COMMAND...: runs a command that calls ninja, with its output in LOG, and says how far it is.

On a terminal one line is rewritten; elsewhere a line is printed every 15 seconds. The time that is left is estimated
from the steps that are done. The exit code is the command's.
"""

import os
import re
import selectors
import subprocess
import sys
import time

STEP = re.compile(rb"^\[(\d+)/(\d+)\] (.*)$")
EVERY = float(os.environ.get("TACIT_PROGRESS_SECONDS", "15"))  # between two lines
FIRST = min(2.0, EVERY)  # nothing is said of what takes less


def clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


class Progress:
    """Counts ninja's steps, and prints."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.terminal = sys.stderr.isatty()
        self.start = self.printed = time.monotonic()
        self.done = self.all = 0
        self.width = 0

    def line(self, line: bytes) -> None:
        if found := STEP.match(line):
            self.done, self.all = int(found[1]), int(found[2])

    def text(self) -> str:
        passed = time.monotonic() - self.start
        steps = f" {self.done}/{self.all}" if self.all else ""
        text = f"tacit: {self.title}{steps}, {clock(passed)}"
        if 0 < self.done < self.all and passed > 5:
            text += f", about {clock(passed / self.done * (self.all - self.done))} left"
        return text

    def show(self) -> None:
        now = time.monotonic()
        if self.terminal:
            if now - self.start < FIRST or now - self.printed < 0.2:
                return
            text = self.text()
            print(f"\r{text:<{self.width}}", end="", file=sys.stderr, flush=True)
            self.width = len(text)
        elif now - self.printed < EVERY:
            return
        else:
            print(self.text(), file=sys.stderr, flush=True)
        self.printed = now

    def close(self) -> None:
        if self.width:
            print(f"\r{'':<{self.width}}\r", end="", file=sys.stderr, flush=True)


def main() -> int:
    log, title, *command = sys.argv[1:]
    progress = Progress(title)
    with open(log, "ab") as output, selectors.DefaultSelector() as ready:
        # NINJA_STATUS of the user would hide the counts.
        environment = os.environ | {"NINJA_STATUS": "[%f/%t] "}
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
        )
        assert child.stdout is not None
        ready.register(child.stdout, selectors.EVENT_READ)
        rest = b""
        try:
            while True:
                if ready.select(timeout=0.5):
                    part = os.read(child.stdout.fileno(), 65536)
                    if not part:
                        break
                    output.write(part)
                    output.flush()
                    *lines, rest = (rest + part).split(b"\n")
                    for line in lines:
                        progress.line(line)
                progress.show()
        except KeyboardInterrupt:
            child.wait()
            return 130
        finally:
            progress.close()
        return child.wait()


if __name__ == "__main__":
    sys.exit(main())
