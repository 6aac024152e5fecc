#!/usr/bin/env -S python3 -B
"""Trainings that are hurt: each run starts `weft train` in some layout, does it one harm at a random moment, and checks how it ends:
status, the last line and the rank it names, time, processes and files left behind, and that what ran to its end has the bits
of the run that nobody hurt. A run is told whole by its seed: --seed S --runs 1 repeats it.

Needs root for the full disk (a small tmpfs in a mount namespace of its own).
"""
import argparse
import dataclasses
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

TIMEOUT_S = 3.0     # run.timeout_s of every run
slack_s = 5.0       # what may come on top of a deadline; --slack
DEADLINE_S = 60.0   # after which a run hangs, whatever it does
SHORT, LONG = 12, 1_000_000

RECIPE = """
model = { name = "gpt", layers = 4, heads = 2, width = 32, context = 32 }
data = { name = "text", path = "text" }
batch = { global = 16 }
optimizer = { lr = 1e-3, clip = 1.0 }
run = { steps = 12, evaluate_every = 5, threads = 1, reproducible_slots = 4, timeout_s = 3 }
"""
INPUTS = {"r.toml", "text"}

# Name, ranks, keys of layout.
LAYOUTS = [
    ("one", 1, {}),
    ("one, offloaded", 1, {"offload_optimizer": "disk", "offload_folder": "."}),
    ("dp 2", 2, {}),
    ("dp 4", 4, {}),
    ("zero1", 4, {"shard_level": "optimizer"}),
    ("zero2", 2, {"shard_level": "gradients"}),
    ("zero3", 4, {"shard_level": "parameters", "recompute": "blocks"}),
    ("zero3, offloaded", 2, {"shard_level": "parameters", "recompute": "blocks", "offload_activations": "disk",
                             "offload_parameters": "disk", "offload_optimizer": "disk", "offload_folder": "."}),
    ("hybrid", 4, {"dp": 2, "shard": 2, "shard_level": "parameters"}),
    ("1f1b", 2, {"pp": 2}),
    ("gpipe", 4, {"pp": 4, "schedule": "gpipe"}),
    ("interleaved", 2, {"pp": 2, "schedule": "interleaved"}),
    ("zb-h1 x dp", 4, {"pp": 2, "dp": 2, "schedule": "zb-h1"}),
    ("1f1b x shard", 4, {"pp": 2, "shard": 2, "shard_level": "parameters"}),
]
BACKENDS = ["auto", "gloo"]


class Wrong(Exception):
    """What a run did that it should not have."""


@dataclasses.dataclass
class Ended:
    status: int          # as a shell has it: 128 + signal
    after_s: float       # since the harm
    out: str
    err: str

    def last_line(self):
        lines = self.err.splitlines()
        return lines[-1] if lines else ""


def proc(pid, name):
    try:
        return pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


class Run:
    """One training in a folder of its own. Every process of it carries a mark in its environment."""

    def __init__(self, weft, seed):
        self.random = random.Random(seed)
        self.weft = weft
        self.mark = f"WEFT_CHAOS={os.getpid()}-{seed}-{time.monotonic_ns()}"
        self.layout, self.ranks, self.keys = self.random.choice(LAYOUTS)
        self.backend = self.random.choice(BACKENDS)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weft_chaos_"))
        (self.folder / "r.toml").write_text(RECIPE)
        (self.folder / "text").write_text("".join(f"line {i} of a text that repeats itself\n" for i in range(2000)))
        self.shared_memory = set(os.listdir("/dev/shm"))

    def command(self, steps, more=()):
        keys = {f"layout.{key}": value for key, value in self.keys.items()}
        keys |= {"layout.backend": self.backend, "run.steps": steps}
        words = [self.weft, "train", "r.toml", "-n", str(self.ranks)]
        for key, value in keys.items():
            words += ["--set", f"{key}={value}"]
        return words + list(more)

    def start(self, words, **options):
        environment = os.environ | dict([self.mark.split("=")])
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        streams = {"stdin": subprocess.DEVNULL, "stdout": self.out, "stderr": self.err} | options.pop("streams", {})
        self.launcher = subprocess.Popen(words, cwd=self.folder, env=environment, **streams, **options)
        self.hurt_at = time.monotonic()

    def rank(self, number):
        """Process number of a rank, once it has started; None when the run ends before."""
        want = f"RANK={number}".encode()
        end = time.monotonic() + 20
        while time.monotonic() < end and self.launcher.poll() is None:
            for child in proc(self.launcher.pid, f"task/{self.launcher.pid}/children").split():
                if want in proc(int(child), "environ").split(b"\0"):
                    return int(child)
            time.sleep(0.01)
        return None

    def hurt(self, pid, harm):
        self.hurt_at = time.monotonic()
        try:
            os.kill(pid, harm)
        except ProcessLookupError:
            pass

    def end(self):
        try:
            self.launcher.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            waiting = "; ".join(f"{pid}: {proc(pid, 'wchan').decode()}" for pid in self.alive())
            raise Wrong(f"hangs: still there after {DEADLINE_S:.0f} s ({waiting})")
        after = time.monotonic() - self.hurt_at
        texts = []
        for stream in (self.out, self.err):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace"))
        status = self.launcher.returncode
        return Ended(128 - status if status < 0 else status, after, *texts)

    def alive(self):
        mark = self.mark.encode()
        return [int(p) for p in os.listdir("/proc") if p.isdigit() and mark in proc(p, "environ").split(b"\0")
                and proc(p, "stat").rpartition(b")")[2].split()[0:1] != [b"Z"]]

    def check_left(self, files=()):
        end = time.monotonic() + 3.0
        while self.alive() and time.monotonic() < end:
            time.sleep(0.02)
        if self.alive():
            raise Wrong(f"left {len(self.alive())} processes")
        left = set(os.listdir(self.folder)) - INPUTS - set(files)
        if left:
            raise Wrong(f"left the files {sorted(left)}")
        while time.monotonic() < end and self.shared():
            time.sleep(0.02)
        if self.shared():
            raise Wrong(f"left /dev/shm/{sorted(self.shared())}")

    def shared(self):
        return {name for name in set(os.listdir("/dev/shm")) - self.shared_memory if "weft" in name}

    def clear(self):
        for pid in self.alive():
            os.kill(pid, signal.SIGKILL)
        if hasattr(self, "launcher"):
            self.launcher.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


# --- what must come of a run --------------------------------------------------------------------------------------------

def expect(condition, text, ended):
    if not condition:
        raise Wrong(f"{text}\n    status {ended.status} {ended.after_s:.1f} s after the harm, said: {ended.err.strip()[-400:]!r}")


def expect_one_line(ended):
    expect(len(ended.err.splitlines()) == 1 and ended.err.startswith("weft: "), "one line on standard error is due", ended)


def expect_culprit(ended, rank):
    """`weft: rank R: ...` names R itself; `weft: rank Q: ...` must name R and nobody else as the cause."""
    named = [int(number) for number in re.findall(r"\brank (\d+)", ended.last_line())]
    others = set(named[1:]) - {named[0]} if named else set()
    expect(named and (others == {rank} or (not others and named[0] == rank)), f"rank {rank} is to be named", ended)


_weights = {}
_weights_lock = threading.Lock()


def undisturbed_weights(run):
    """sha256 of the weights that this recipe trains to; one for all layouts, as its slots are reproducible."""
    with _weights_lock:
        if not _weights:
            words = [run.weft, "train", "r.toml", "--set", f"run.steps={SHORT}", "--summary", "alone.json"]
            done = subprocess.run(words, cwd=run.folder, capture_output=True, text=True, timeout=DEADLINE_S)
            if done.returncode != 0:
                raise Wrong(f"the run that nobody hurts fails: {done.stderr}")
            _weights["sha256"] = json.loads((run.folder / "alone.json").read_text())["weights_sha256"]
            (run.folder / "alone.json").unlink()
        return _weights["sha256"]


def expect_trained(run, ended):
    expect(ended.status == 0, "the training should have ended well", ended)
    summary = json.loads((run.folder / "s.json").read_text())
    expect(summary["weights_sha256"] == undisturbed_weights(run), "other weights than those of the run nobody hurt", ended)


def check_saved(path):
    """A safetensors file is whole or not there."""
    if not path.exists():
        return
    data = path.read_bytes()
    header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    if len(data) != 8 + int.from_bytes(data[:8], "little") + max(ends):
        raise Wrong("half a file of weights")


# --- harms ----------------------------------------------------------------------------------------------------------------

def any_moment(run, longest=5.0):
    time.sleep(run.random.uniform(0.0, 1.0) ** 2 * longest)  # more of them early, where ranks meet


def signal_rank(run, harm, check):
    number = run.random.randrange(run.ranks)
    run.start(run.command(LONG))
    pid = run.rank(number) if run.ranks > 1 else run.launcher.pid
    any_moment(run)
    if pid:
        run.hurt(pid, harm)
    ended = run.end()
    if run.ranks == 1:
        expect(ended.status == 128 + harm, "the signal's status is due", ended)
    else:
        check(ended, number)
    run.check_left()
    return f"rank {number}"


def kill_rank(run):
    def check(ended, number):
        expect(ended.status == 128 + signal.SIGKILL, "status 137 is due", ended)
        expect(ended.after_s < slack_s, "too late", ended)
        expect_one_line(ended)
        expect_culprit(ended, number)
    return signal_rank(run, signal.SIGKILL, check)


def terminate_rank(run):
    def check(ended, number):
        expect(ended.status == 128 + signal.SIGTERM, "status 143 is due", ended)
        expect(ended.after_s < slack_s, "too late", ended)
        expect_one_line(ended)
        expect_culprit(ended, number)
    return signal_rank(run, signal.SIGTERM, check)


def stop_rank(run):
    if run.ranks == 1:
        return kill_rank(run)

    def check(ended, number):
        expect(ended.status == 1, "status 1 is due", ended)
        expect(ended.after_s < TIMEOUT_S + slack_s, "too late", ended)
        expect_one_line(ended)
        expect_culprit(ended, number)
    return signal_rank(run, signal.SIGSTOP, check)


def pause_rank(run):
    """Shorter than the deadline: nothing comes of it."""
    number = run.random.randrange(run.ranks)
    run.start(run.command(SHORT, ["--summary", "s.json"]))
    pid = run.rank(number) if run.ranks > 1 else run.launcher.pid
    any_moment(run, 2.0)
    if pid:
        run.hurt(pid, signal.SIGSTOP)
        time.sleep(run.random.uniform(0.05, 0.8))
        run.hurt(pid, signal.SIGCONT)
    ended = run.end()
    expect_trained(run, ended)
    run.check_left({"s.json"})
    return f"rank {number}"


def signal_launcher(run, harm):
    run.start(run.command(LONG))
    any_moment(run)
    run.hurt(run.launcher.pid, harm)
    ended = run.end()
    expect(ended.status == 128 + harm, f"status {128 + harm} is due", ended)
    expect(ended.after_s < slack_s, "too late", ended)
    if harm != signal.SIGKILL and run.ranks > 1:
        expect(len(ended.err.splitlines()) <= 1, "one line at most is due", ended)
    run.check_left()


def kill_launcher(run):
    signal_launcher(run, signal.SIGKILL)


def terminate_launcher(run):
    signal_launcher(run, signal.SIGTERM)


def interrupt_launcher(run):
    signal_launcher(run, signal.SIGINT)


def end_while_saving(run):
    """A short run that saves, killed at any moment of it: weights are whole or not there, and nothing else is left."""
    run.start(run.command(3, ["--save", "w.safetensors"]))
    harm = run.random.choice([signal.SIGKILL, signal.SIGTERM])
    number = run.random.choice([None] + list(range(run.ranks)))
    pid = run.launcher.pid if number is None or run.ranks == 1 else run.rank(number)
    time.sleep(run.random.uniform(0.0, 3.0))
    if pid:
        run.hurt(pid, harm)
    ended = run.end()
    expect(ended.status in (0, 128 + harm), "0 or the signal's status is due", ended)
    check_saved(run.folder / "w.safetensors")
    if ended.status == 0:
        expect((run.folder / "w.safetensors").exists(), "the weights are missing", ended)
    run.check_left({"w.safetensors"})
    return "launcher" if number is None else f"rank {number}"


def close_descriptors(run):
    closed = run.random.sample([0, 1, 2], run.random.randint(1, 3))
    words = " ".join(["exec", '"$@"'] + [f"{fd}{'<' if fd == 0 else '>'}&-" for fd in closed])
    run.start(["sh", "-c", words, "sh"] + run.command(SHORT, ["--summary", "s.json"]))
    ended = run.end()
    expect_trained(run, ended)
    run.check_left({"s.json"})
    return f"{sorted(closed)}"


def fill_output(run):
    run.start(run.command(SHORT), streams={"stdout": open("/dev/full", "wb")})
    ended = run.end()
    expect(ended.status == 1, "output that was not written is an error", ended)
    expect_one_line(ended)
    run.check_left()


def keeps_old_file(run, ended, path, old):
    expect(ended.status == 1, "status 1 is due", ended)
    expect_one_line(ended)
    if path.read_bytes() != old:
        raise Wrong("the file that was there before is gone")


def limit_files(run):
    old = b"weights of an earlier run"
    (run.folder / "w.safetensors").write_bytes(old)
    limit = run.random.choice([0, 4096, 20_000])
    run.start(run.command(SHORT, ["--save", "w.safetensors"]), streams={"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE},
              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    run.err = tempfile.TemporaryFile()
    try:
        run.err.write(run.launcher.communicate(timeout=DEADLINE_S)[1])
    except subprocess.TimeoutExpired:
        raise Wrong("hangs")
    keeps_old_file(run, run.end(), run.folder / "w.safetensors", old)
    run.check_left({"w.safetensors"})
    return f"{limit} bytes"


def fill_disk(run):
    """The folder that weights are saved to, and offloaded to, is a tmpfs that both do not fit."""
    size = run.random.choice([8, 24, 40])
    inside = 'mount -t tmpfs -o size=%dk weft small && echo old >small/w && "$@"; s=$?; ls -A small; cat small/w; exit $s' % size
    (run.folder / "small").mkdir()
    if "offload_folder" in run.keys:
        run.keys = run.keys | {"offload_folder": "small"}
    run.start(["unshare", "--mount", "sh", "-c", inside, "sh"] + run.command(SHORT, ["--save", "small/w"]))
    ended = run.end()
    expect(ended.status == 1, "status 1 is due", ended)
    expect_one_line(ended)
    expect(ended.out.endswith("\nw\nold\n"), f"not what was there before: {ended.out[-60:]!r}", ended)
    run.check_left({"small"})
    return f"{size} KiB"


HARMS = [kill_rank, terminate_rank, stop_rank, stop_rank, stop_rank, pause_rank, kill_launcher, terminate_launcher,
         interrupt_launcher, end_while_saving, end_while_saving, close_descriptors, fill_output, limit_files, fill_disk]


def one_run(weft, seed, only):
    run = Run(weft, seed)
    harm = run.random.choice([h for h in HARMS if not only or h.__name__ in only])
    text = f"seed {seed}: {harm.__name__}, {run.layout} over {run.backend}"
    began = time.monotonic()
    try:
        detail = harm(run)
        print(f"{text}{', ' + detail if detail else ''}: ended as it should ({time.monotonic() - began:.1f} s)", flush=True)
        return True
    except Wrong as wrong:
        print(f"{text}: WRONG: {wrong}", flush=True)
        return False
    finally:
        run.clear()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", required=True, type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000),
                        help="of the first run; the next ones count up")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--only", action="append", help="harms by name: " + ", ".join(sorted({h.__name__ for h in HARMS})))
    parser.add_argument("--slack", type=float, default=slack_s, metavar="SECONDS",
                        help="what an end may take beside its deadline: more on busy machines (default: %(default)s)")
    options = parser.parse_args()
    globals()["slack_s"] = options.slack
    seeds = iter(range(options.seed, options.seed + options.runs))
    lock, results = threading.Lock(), []

    def work():
        while True:
            with lock:
                seed = next(seeds, None)
            if seed is None:
                return
            results.append(one_run(options.weft, seed, options.only))

    threads = [threading.Thread(target=work) for _ in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    sys.exit(0 if results and all(results) else 1)


if __name__ == "__main__":
    main()
