"""A training in its own folder, whose processes all carry a mark by which they can be found."""
import dataclasses
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time

TIMEOUT_S = 3.0     # run.timeout_s of every run
DEADLINE_S = 60.0   # a run that takes longer hangs
SHORT, LONG = 12, 1_000_000

RECIPE = """
model = { name = "gpt", layers = 4, heads = 2, width = 32, context = 32 }
data = { name = "text", path = "text" }
batch = { global = 16 }
optimizer = { lr = 1e-3, clip = 1.0 }
run = { steps = 12, evaluate_every = 5, threads = 1, reproducible_slots = 4, timeout_s = 3 }
"""
INPUTS = {"r.toml", "text"}

# Name, ranks, layout keys.
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
    """A run's wrong behaviour."""


@dataclasses.dataclass
class Ended:
    status: int          # as in a shell: 128 + signal
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
    """A training in its own folder. All its processes carry a mark in their environment."""

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
        """Process id of a rank, once it has started; None if the run ends first."""
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
