#!/usr/bin/env -S python3 -B
"""A training under repeated faults, restarted each time, often in another layout, must end with an undisturbed run's weights.
Faults: a rank, all ranks or the launcher killed at a random moment; a rank killed at one of the system calls of its saves; SIGTERM,
also when the parent had blocked it; a disk that is full from some write on; reads and writes that fail, once or permanently; bits
that flip in the newest checkpoint; no file locks, and a second run; a clock that jumps; a folder that vanishes; a second place that
is slow or fails. The seed determines a run.

After each fault: the expected status and line, no process and nothing in /dev/shm left; the next start resumes from the newest
complete checkpoint. At the end: the weights, and no partial file.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from training import LAYOUTS, Wrong, proc

STEPS = 40
DEADLINE_S = 60.0  # per run, on an otherwise idle machine
RECIPE = """
model = { name = "gpt", layers = 4, heads = 2, width = 32, context = 32, dropout = 0.1 }
data = { name = "text", path = "text" }
batch = { global = 16, micro = 2 }
optimizer = { lr = 1e-3, clip = 1.0, decay = "cosine", warmup = 5 }
run = { steps = %d, evaluate_every = 10, threads = 1, reproducible_slots = 4, timeout_s = 10 }
save = { folder = "runs", every = "3 steps", keep = 3, keep_best = "evaluation loss" }
""" % STEPS
STOPPED = 75


class Survivor:
    def __init__(self, weft, failpoint, seed, deadline_s=DEADLINE_S):
        self.deadline_s = deadline_s
        self.random = random.Random(seed)
        self.weft, self.failpoint = weft, failpoint
        self.mark = f"WEFT_CHAOS=survive-{os.getpid()}-{seed}"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weft_survive_"))
        (self.folder / "r.toml").write_text(RECIPE)
        (self.folder / "text").write_text("".join(f"line {i} of a text that repeats itself\n" for i in range(2000)))
        self.shared_memory = set(os.listdir("/dev/shm"))
        self.done = collections.Counter()
        self.steps_again = 0
        self.seconds = []

    # --- one start --------------------------------------------------------------------------------------------------------

    def start(self, more=(), environment=None, layout=None, **options):
        name, self.ranks, keys = layout or self.random.choice(LAYOUTS)
        words = [self.weft, "train", "r.toml", "-n", str(self.ranks), "--summary", "summary.json"]
        for key, value in keys.items():
            words += ["--set", f"layout.{key}={value}"]
        self.what = f"{name}, {' '.join(more)}"
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.process = subprocess.Popen(words + list(more), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err,
                                        env=os.environ | dict([self.mark.split("=")]) | (environment or {}), **options)

    def text(self, stream):
        stream.seek(0)
        return stream.read().decode(errors="replace")

    def end(self):
        try:
            self.process.wait(self.deadline_s)
        except subprocess.TimeoutExpired:
            raise Wrong(f"no end within {self.deadline_s:.0f} s ({self.what})")
        return self.process.returncode

    def report(self):
        return f"{self.what}: status {self.process.returncode}, said {self.text(self.err).strip()[-500:]!r}"

    def alive(self):
        mark = self.mark.encode()
        return [int(p) for p in os.listdir("/proc") if p.isdigit() and mark in proc(p, "environ").split(b"\0")
                and proc(p, "stat").rpartition(b")")[2].split()[0:1] != [b"Z"]]

    def check_left(self):
        end = time.monotonic() + 5.0
        while (self.alive() or self.left_shared()) and time.monotonic() < end:
            time.sleep(0.02)
        if self.alive() or self.left_shared():
            raise Wrong(f"left processes {self.alive()} and /dev/shm/{self.left_shared()} ({self.report()})")

    def left_shared(self):
        return [name for name in set(os.listdir("/dev/shm")) - self.shared_memory if "weft" in name]

    def complete(self):
        """Steps of the complete checkpoints."""
        return sorted(int(f.parent.name[5:]) for f in self.folder.glob("runs/step-*/complete.json"))

    def running(self, steps):
        """Waits until that many steps are saved, or the run ends."""
        end = time.monotonic() + 30
        while time.monotonic() < end and self.process.poll() is None:
            newest = self.complete()
            if newest and newest[-1] >= steps:
                return
            time.sleep(0.005)

    def children(self):
        """Children of the launcher: its ranks and its guardian."""
        found = proc(self.process.pid, f"task/{self.process.pid}/children").split()
        return [int(child) for child in found if b"RANK" in proc(int(child), "environ")]

    # --- faults -----------------------------------------------------------------------------------------------------------

    def at_random(self):
        """Waits for a random moment of the run: while it starts, or after another save."""
        newest = (self.complete() or [0])[-1]
        if self.random.random() < 0.2:
            time.sleep(self.random.random() * 0.5)
        else:
            self.running(newest + self.random.choice([1, 4, 7]))
            time.sleep(self.random.random() * 0.05)

    def kill_rank(self):
        self.start()
        self.at_random()
        ranks = self.children() or [self.process.pid]
        self.hurt([self.random.choice(ranks)], signal.SIGKILL)

    def kill_all(self):
        self.start()
        self.at_random()
        self.hurt(self.alive(), signal.SIGKILL)

    def kill_launcher(self):
        self.start()
        self.at_random()
        self.hurt([self.process.pid], signal.SIGKILL)

    def kill_in_save(self):
        rank = self.random.randrange(2)
        self.start(environment=self.failing({"WEFT_FAIL_AT": str(self.random.randrange(1, 60)), "WEFT_FAIL_RANK": str(rank)}))
        self.end()

    def full_disk(self):
        self.start(environment=self.failing({"WEFT_FAIL_AT": str(self.random.randrange(1, 60)), "WEFT_FAIL_WITH": "ENOSPC",
                                             "WEFT_FAIL_RANK": str(self.random.randrange(2))}))
        if self.end() not in (0, -signal.SIGKILL) and "No space left" not in self.text(self.err):
            raise Wrong(f"a full disk is not reported ({self.report()})")

    def failing(self, more, below="runs"):
        return {"LD_PRELOAD": self.failpoint, "WEFT_FAIL_BELOW": str(self.folder / below)} | more

    def io_error(self):
        """Fails a read or a write: it is retried, or the run ends and changes nothing."""
        before = (self.complete() or [0])[-1]
        how = {"WEFT_FAIL_AT": str(self.random.randrange(1, 120)), "WEFT_FAIL_WITH": self.random.choice(["EIO", "ESTALE"]),
               "WEFT_FAIL_CALLS": self.random.choice(["all", "reads", "changes"]), "WEFT_FAIL_RANK": str(self.random.randrange(2))}
        if self.random.random() < 0.5:
            how["WEFT_FAIL_TIMES"] = str(self.random.choice([1, 2, 10]))
        self.start(environment=self.failing(how))
        status = self.end()
        if status not in (0, -signal.SIGKILL) and "Input/output error" not in self.text(self.err) and "Stale file handle" not in self.text(self.err):
            raise Wrong(f"a failing disk is not reported ({self.report()})")
        if "skipped: " in self.text(self.out):
            raise Wrong(f"a disk error is taken for damage ({self.report()}, {self.text(self.out)[:600]!r})")
        if (self.complete() or [0])[-1] < before:
            raise Wrong(f"step {before} is gone ({self.report()})")

    def no_locks(self):
        """A second run is refused even without locks."""
        environment = self.failing({"WEFT_FAIL_LOCKS": self.random.choice(["ENOSYS", "ENOLCK"])})
        newest = (self.complete() or [0])[-1]
        self.start(environment=environment)
        self.running(newest + 1)
        second = subprocess.run([self.weft, "train", "r.toml"], cwd=self.folder, env=os.environ | environment, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=self.deadline_s)
        if self.process.poll() is None and not (second.returncode == 1 and "another run saves its checkpoints there" in second.stderr):
            raise Wrong(f"a second run is not refused: status {second.returncode}, {second.stderr!r} ({self.report()})")
        self.hurt(self.alive(), signal.SIGKILL)

    def jumping_clock(self):
        self.start(["--set", "save.every=0.2 s"], environment=self.failing({"WEFT_FAIL_CLOCK": self.random.choice(["1", "3600", "100000000"])}))
        self.at_random()
        self.hurt(self.alive(), signal.SIGKILL)

    def folder_vanishes(self):
        """The run continues, or reports that it could not save."""
        self.start()
        self.at_random()
        shutil.rmtree(self.folder / "runs", ignore_errors=True)
        if self.end() not in (0, 1) or (self.process.returncode == 1 and "runs" not in self.text(self.err)):
            raise Wrong(f"the folder has vanished ({self.report()})")

    def second_place(self):
        """A faulty second place does not end the run."""
        how = self.random.choice([{"WEFT_FAIL_CALLS": "all", "WEFT_FAIL_DELAY": "100"},
                                  {"WEFT_FAIL_AT": str(self.random.randrange(4, 60)), "WEFT_FAIL_WITH": "EIO"},
                                  {"WEFT_FAIL_AT": str(self.random.randrange(4, 60)), "WEFT_FAIL_WITH": "ENOSPC", "WEFT_FAIL_TIMES": "9"}])
        self.start(["--set", "save.upload=copy"], environment=self.failing(how, "copy"))
        if self.random.random() < 0.3:
            shutil.rmtree(self.folder / "copy", ignore_errors=True)
        self.at_random()
        if self.process.poll() not in (None, 0, 5):
            raise Wrong(f"a second place ends the run ({self.report()})")
        self.hurt(self.alive(), signal.SIGKILL)

    def blocked_signal(self):
        """The parent has blocked signals, as some supervisors do."""
        number = self.random.choice([signal.SIGTERM, signal.SIGUSR1])
        self.start(preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1, signal.SIGINT}))
        self.at_random()
        self.hurt([self.process.pid], number)
        if self.process.returncode not in (0, STOPPED, -number, 128 + number):
            raise Wrong(f"asked to stop by a signal that was blocked ({self.report()})")

    def ask_to_stop(self):
        self.start()
        self.at_random()
        self.hurt([self.process.pid], self.random.choice([signal.SIGTERM, signal.SIGUSR1]))
        status = self.process.returncode
        if status not in (0, STOPPED, -signal.SIGTERM, -signal.SIGUSR1, 128 + signal.SIGTERM, 128 + signal.SIGUSR1):
            raise Wrong(f"asked to stop ({self.report()})")

    def restarts(self):
        """Restarts automatically from snapshots in memory."""
        self.start(["--restarts", "3", "--set", "save.memory_every=2"])
        self.at_random()
        ranks = self.children()
        if ranks:
            self.hurt([self.random.choice(ranks)], signal.SIGKILL, waits=False)
            if self.end() not in (0,):
                raise Wrong(f"it does not restart ({self.report()})")
        else:
            self.end()

    def flip_bits(self):
        """Flips a bit of the newest checkpoint: the run reports it and resumes from the one before."""
        newest = self.complete()
        if len(newest) < 2:
            return self.kill_rank()
        name = f"step-{newest[-1]:08}"
        files = [f for f in sorted((self.folder / "runs" / name).glob("*")) if f.stat().st_size > 0]
        file = self.random.choice(files)
        data = bytearray(file.read_bytes())
        place = self.random.randrange(len(data))
        data[place] ^= 1 << self.random.randrange(8)
        file.write_bytes(data)
        self.start(["--set", f"run.steps={STEPS}"])
        self.running(newest[-1] + 1)
        self.hurt(self.alive(), signal.SIGKILL)
        out = self.text(self.out)
        if "resuming from" in out and (name + ":" not in out.split("resuming from")[0] and name + "/" not in out.split("resuming from")[0]):
            raise Wrong(f"damage in {file.name} of {name} at byte {place} is not reported ({self.report()}, {out[:600]!r})")
        if "resuming from" in out and f"resuming from runs/{name}" in out:
            raise Wrong(f"resumes from a damaged checkpoint ({self.report()})")

    def hurt(self, pids, number, waits=True):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        if waits:
            self.end()

    # --- whole run --------------------------------------------------------------------------------------------------------

    def finish(self):
        """Runs to the end undisturbed; returns the digest of the weights."""
        began = time.monotonic()
        self.start()
        if self.end() != 0:
            raise Wrong(f"does not resume ({self.report()})")
        self.seconds.append(time.monotonic() - began)
        for folder in (self.folder / "runs").iterdir():
            # Killed before its first checkpoint, a run starts again, and keeps the first one's metrics beside its own.
            if re.fullmatch(r"\.weft\..*|(metrics|events)(-\d+)?\.jsonl|stopped.*", folder.name):
                continue
            names = {f.name for f in folder.iterdir()}
            if "complete.json" not in names or any(not (n.startswith("data-") or n in ("complete.json", "index.json")) for n in names):
                raise Wrong(f"left {folder.name} with {sorted(names)}")
            checked = subprocess.run([self.weft, "checkpoint", "verify", folder], capture_output=True, text=True)
            if checked.returncode != 0:
                raise Wrong(f"{folder.name} is damaged: {checked.stderr}")
        return json.loads((self.folder / "summary.json").read_text())["weights_sha256"]


def undisturbed(weft):
    survivor = Survivor(weft, None, 0)
    survivor.start(layout=LAYOUTS[0])
    survivor.end()
    sha = json.loads((survivor.folder / "summary.json").read_text())["weights_sha256"]
    shutil.rmtree(survivor.folder)
    return sha


HARMS = ["kill_rank", "kill_all", "kill_launcher", "kill_in_save", "kill_in_save", "full_disk", "ask_to_stop", "restarts", "flip_bits",
         "io_error", "io_error", "no_locks", "jumping_clock", "folder_vanishes", "second_place", "blocked_signal"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", required=True, help="the command")
    parser.add_argument("--failpoint", required=True, help="the library that fails system calls")
    parser.add_argument("--kills", type=int, default=20, help="number of faults")
    parser.add_argument("--seed", type=int, default=None, help="default: random")
    parser.add_argument("--harm", choices=sorted(set(HARMS)), help="only this fault")
    parser.add_argument("--deadline", type=float, default=DEADLINE_S, metavar="S", help="raise it on a busy machine (default: %(default)s)")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.randrange(1 << 30)
    print(f"seed {seed}", flush=True)
    sha = undisturbed(options.weft)
    done, order, runs, harms = collections.Counter(), random.Random(seed), 0, []
    while sum(done.values()) < options.kills:
        survivor = Survivor(options.weft, options.failpoint, seed + runs, options.deadline)
        runs += 1
        try:
            # About 6 faults per run, which then runs to its end.
            for _ in range(min(6, options.kills - sum(done.values()))):
                if survivor.complete() and survivor.complete()[-1] >= STEPS - 8:
                    break
                harms = harms or order.sample(HARMS, len(HARMS))  # each once before one repeats
                harm = options.harm or harms.pop()
                getattr(survivor, harm)()
                survivor.check_left()
                done[harm] += 1
            found = survivor.finish()
            survivor.check_left()
            if found != sha:
                raise Wrong(f"other weights: {found[:16]}, not {sha[:16]}")
        except Wrong as wrong:
            print(f"run {runs}, after {dict(done)}, last {harm}: {wrong}\n  in {survivor.folder}")
            return 1
        shutil.rmtree(survivor.folder)
    for harm, count in sorted(done.items()):
        print(f"  {harm:14} {count:4}")
    print(f"{sum(done.values())} faults in {runs} runs: each ended with the weights of the undisturbed run")
    return 0


if __name__ == "__main__":
    sys.exit(main())
