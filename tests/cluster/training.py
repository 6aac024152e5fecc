"""Small trainings over hosts: a recipe in a folder that all hosts share, its ranks started one by one, and their weights."""

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

RECIPE = """
model = { name = "gpt", layers = 4, heads = 2, width = 32, context = 32 }
data = { name = "text", path = "text" }
batch = { global = 16, micro = 2 }
optimizer = { lr = 1e-3, clip = 1.0 }
run = { steps = 4, evaluate_every = 4, threads = 1, reproducible_slots = 4, timeout_s = 20 }
"""


class Training:
    """A recipe in its own folder under /tmp, where all hosts see it."""

    def __init__(self, recipe=RECIPE):
        self.files = tempfile.TemporaryDirectory(prefix="weft-training-")
        self.folder = Path(self.files.name)
        self.recipe = self.folder / "r.toml"
        self.recipe.write_text(recipe, encoding="ascii")
        words = "the quick brown fox jumps over the lazy dog and then some more of it ".split()
        state, text = 1, []
        for _ in range(4000):
            state = state * 1103515245 + 12345 & 0x7FFFFFFF
            text.append(words[state >> 16 & 15 if (state >> 16 & 15) < len(words) else 0])
        (self.folder / "text").write_text(" ".join(text), encoding="ascii")

    def command(self, *arguments, keys=()):
        """weft train with these arguments and --set of these keys."""
        return [os.environ["WEFT"], "train", self.recipe, *arguments, *(part for key in keys for part in ("--set", key))]

    def alone(self, ranks, keys=(), save="alone.safetensors"):
        """Trains on one host without any network; returns a digest of the weights."""
        result = subprocess.run(self.command("-n", str(ranks), "--save", self.folder / save, keys=keys), cwd=self.folder,
                                capture_output=True, text=True, timeout=120)
        if result.returncode != 0:
            raise AssertionError(f"{result.stdout}\n{result.stderr}")
        return self.digest(save)

    def start(self, network, ranks, keys=(), save=None, env=None):
        """Starts `ranks` ranks on each host, numbered host by host; the first one serves the store."""
        programs = []
        for host in network.hosts:
            for local in range(ranks):
                variables = {"RANK": host.number * ranks + local, "WORLD_SIZE": ranks * len(network.hosts), "LOCAL_RANK": local,
                             "LOCAL_WORLD_SIZE": ranks, "MASTER_ADDR": network.hosts[0].address, "MASTER_PORT": 29500, **(env or {})}
                arguments = ["--save", self.folder / save] if save else []
                programs.append(host.start(self.command(*arguments, keys=keys), variables, cwd=self.folder, text=True,
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return programs

    def train(self, network, ranks, keys=(), save="hosts.safetensors", env=None, timeout=120):
        """Trains over hosts; returns a digest of the weights."""
        programs = self.start(network, ranks, keys, save, env)
        outputs = [program.communicate(timeout=timeout) for program in programs]
        if any(program.returncode != 0 for program in programs):
            raise AssertionError("\n".join(f"rank {rank}: {out}\n{err}" for rank, (out, err) in enumerate(outputs)))
        return self.digest(save)

    def digest(self, file):
        return hashlib.sha256((self.folder / file).read_bytes()).hexdigest()

    def close(self):
        self.files.cleanup()
