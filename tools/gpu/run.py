"""Runs parts in turn, each within a limit of its own and all within one. A part that fails, hangs or cannot run stops no other, and
results.json is whole after each: a part that was not reached is in it too, as not run."""
import dataclasses
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
import typing

OK, FAILED, NOT_RUN = "ok", "failed", "not run"
MARKS = {OK: "ok    ", FAILED: "FAILED", NOT_RUN: "-     "}


class NotRun(Exception):
    """A part, or a row of one, cannot run; says why."""


class CommandFailed(Exception):
    """A command failed, or did not end in time. Has what it printed."""

    def __init__(self, text, output=""):
        super().__init__(text)
        self.output = output


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    limit_s: float  # it is ended then
    least_s: float  # not begun with less
    work: typing.Callable[["Run"], None]


class Run:
    """A run of parts, and what it found: results.json and log.txt in `folder`. Commands run in `work`."""

    def __init__(self, folder, work, parts, limit_s, dry_run=False):
        self.folder, self.work, self.parts = folder, work, parts
        self.about = {"dry_run": dry_run, "limit_s": limit_s, "machine": {}}
        self.begin = time.monotonic()
        self.end = self.deadline = self.begin + limit_s - min(limit_s / 10, 10)  # ending commands takes time too
        self.lock, self.live, self.commands, self.ending = threading.RLock(), set(), 0, False
        self.found = [{"name": part.name, "status": NOT_RUN, "reason": "not reached", "seconds": 0.0, "limit_s": part.limit_s,
                       "rows": []} for part in parts]
        (folder / "log.txt").write_text("")
        self.write()

    def do(self):
        """Returns whether all parts that ran are ok, and one was."""
        for part, self.now in zip(self.parts, self.found):
            left = self.end - time.monotonic()
            if left < part.least_s:
                self.finish(NOT_RUN, f"no time: {max(left, 0):.0f} s are left, it takes {part.least_s:.0f} s")
                continue
            begin = time.monotonic()
            self.deadline = min(begin + part.limit_s, self.end)
            self.say(f"{part.name}, at {begin - self.begin:.0f} s")
            reason, failed = "", False
            try:
                part.work(self)
            except NotRun as error:
                reason = str(error)
            except CommandFailed as error:
                reason, failed = str(error), True
            except Exception as error:  # a fault of this program must not end it either
                reason, failed = f"{type(error).__name__}: {error}", True
                self.note(traceback.format_exc())
            self.now["seconds"] = round(time.monotonic() - begin, 1)
            self.judge(reason, failed)
        if self.unwritten:
            print(f"gpu_check: {self.unwritten}; results are incomplete there", file=sys.stderr)
        return not self.unwritten and any(part["status"] == OK for part in self.found) and all(part["status"] != FAILED for part in self.found)

    def judge(self, reason, failed):
        statuses = [row["status"] for row in self.now["rows"]]
        if failed or FAILED in statuses:
            self.finish(FAILED, reason)
        elif OK in statuses:
            self.finish(OK, reason)
        elif reason or statuses:
            self.finish(NOT_RUN, reason or self.now["rows"][0]["text"])
        else:
            self.finish(FAILED, "it reported nothing")

    def finish(self, status, reason):
        self.now |= {"status": status, "reason": reason}
        if reason:
            self.say(f"{MARKS[status]} {self.now['name']}: {reason}")
        self.write()

    def write(self):
        about = self.about | {"seconds": round(time.monotonic() - self.begin, 1)}
        file = self.folder / "results.json.new"
        try:
            file.write_text(json.dumps(finite(about | {"parts": self.found}), indent=1, allow_nan=False) + "\n", encoding="utf-8")
            file.replace(self.folder / "results.json")
            self.unwritten = ""
        except OSError as error:  # later parts still print what they find
            self.unwritten = f"{self.folder / 'results.json'}: {error.strerror}"

    def row(self, name, status, text, **figures):
        """A finding of this part. `status`: one of the three, or whether it holds."""
        status = status if isinstance(status, str) else OK if status else FAILED
        self.now["rows"].append({"name": name, "status": status, "text": text, **figures})
        self.say(f"{MARKS[status]} {self.now['name'] + ': ' + name:34} {text}")

    def fault(self, name, error):
        self.row(name, NOT_RUN if isinstance(error, NotRun) else FAILED, str(error))

    def note(self, text):
        try:
            with self.lock, open(self.folder / "log.txt", "a", encoding="utf-8", errors="replace") as log:
                log.write(text.rstrip("\n") + "\n")
        except OSError:  # a full disk: results.json says so at the end
            pass

    def say(self, text):
        try:
            print(text, flush=True)
        except OSError:  # nobody reads any more
            pass
        self.note(text)

    def command(self, words, environment=None, most_s=math.inf):
        """Returns what a command prints on standard output. It and all that it started are ended at the part's deadline, or after
        `most_s`; their stacks go to the log. Output goes to files: a process that cannot be ended holds up nothing."""
        if self.deadline - time.monotonic() < 1:
            raise NotRun("no time is left in this part")
        words = [str(word) for word in words]
        with self.lock:
            self.commands += 1
            files = [self.work / f"{self.commands}.{kind}" for kind in ("out", "err")]
        with open(files[0], "wb") as out, open(files[1], "wb") as err, self.lock:
            if self.ending:
                raise NotRun("a signal ended it")
            try:
                process = subprocess.Popen(words, cwd=self.work, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                           start_new_session=True)
            except OSError as error:
                raise CommandFailed(f"{words[0]}: {error.strerror}") from None
            self.live.add(process.pid)
        limit, late = min(self.deadline - time.monotonic(), most_s), False
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            late = True
            if self.end - time.monotonic() > 20:
                self.note(stacks(process.pid))
        finally:
            end_session(process)
            self.live.discard(process.pid)
        out, err = (file.read_text(encoding="utf-8", errors="replace") for file in files)
        self.note(f"--- {' '.join(words)}: {f'not done after {limit:.0f} s' if late else f'status {process.returncode}'}\n{out}{err}")
        if late or process.returncode != 0:
            reason = f"not done after {limit:.0f} s" if late else f"status {process.returncode}"
            raise CommandFailed(f"{pathlib.Path(words[0]).name}: {reason}: {' | '.join((out + err).splitlines()[-3:])}", out)
        return out

    def kill(self, *_):
        """For signals: what runs must not outlive this program. A child may be too young to be among the living."""
        self.ending = True  # before the scans: threads start nothing after one of them
        for _ in range(3):
            children = {pid for pid, (parent, _) in processes().items() if parent == os.getpid()}
            for pid in self.live | children:
                signal_session(pid, signal.SIGKILL)
            time.sleep(0.05)
        shutil.rmtree(self.work, ignore_errors=True)
        os.write(2, b"gpu_check: ended by a signal\n")
        os._exit(1)  # results.json has been written


def finite(value):
    """JSON has no infinite numbers."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def processes():
    """The parent and session of each process."""
    found = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent, _, leader = stat.read_text().rsplit(")", 1)[1].split()[:4]
        except OSError:
            continue
        if state != "Z":
            found[int(stat.parent.name)] = (int(parent), int(leader))
    return found


def session(leader):
    """Processes that `leader` started, with it: a launcher puts ranks into process groups of their own."""
    return sorted(pid for pid, (_, of) in processes().items() if of == leader)


def signal_session(leader, number):
    for pid in session(leader):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def end_session(process):
    for number in (signal.SIGTERM, signal.SIGKILL):  # a launcher ends its ranks at the first
        signal_session(process.pid, number)
        until = time.monotonic() + 3
        while session(process.pid) and time.monotonic() < until:
            time.sleep(0.05)
    process.poll()


def stacks(leader):
    """Where the threads of the processes are; in a call of the GPU's driver, often."""
    texts = []
    for pid in session(leader)[:2]:
        command = ["cuda-gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 14"]
        try:
            texts.append(subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=8).stdout[-20000:])
        except (OSError, subprocess.TimeoutExpired) as error:
            return "\n".join([*texts, f"no stacks: {error}"])
    return "\n".join(texts)
