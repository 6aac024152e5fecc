"""Trainings over several test hosts: a recipe, the programs started on hosts, and their output."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from hosts import Network, wait_for

WEFT = os.environ["WEFT"]
TOKEN = "a secret of these tests"
RECIPE = """
model = {{ name = "gpt", layers = 2, heads = 2, width = 32, context = 32 }}
data = {{ name = "text", path = "text" }}
batch = {{ global = 8, micro = 2 }}
optimizer = {{ lr = 1e-3, warmup = 0 }}
run = {{ steps = {steps}, evaluate_every = 0, threads = 1, reproducible_slots = 4, timeout_s = {timeout_s} }}
save = {{ folder = "{save}", every = "5 steps" }}
"""


class Started:
    """A program whose output goes to a file, so it can be read while the program runs."""

    def __init__(self, host, argv, folder, env=None):
        self.output = tempfile.TemporaryFile()
        self.program = host.start(["env", "-C", folder, *argv], env, stdin=subprocess.DEVNULL, stdout=self.output,
                                  stderr=subprocess.STDOUT)

    def text(self):
        self.output.seek(0)
        return self.output.read().decode(errors="replace")

    def wait(self, seconds=60):
        try:
            return self.program.wait(seconds)
        except subprocess.TimeoutExpired:
            self.program.send_signal(signal.SIGKILL)
            raise AssertionError(f"still running after {seconds} s: {self.text()}") from None

    def says(self, pattern, seconds=30):
        try:
            return wait_for(lambda: re.search(pattern, self.text()), pattern, seconds)
        except TimeoutError:
            raise AssertionError(f"did not say {pattern!r}: {self.text()}") from None


class HostsTest(unittest.TestCase):
    COUNT = 2

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weft-agents-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.network = Network(self.COUNT)
        self.addCleanup(self.network.close)
        self.hosts = self.network.hosts
        self.started = []
        self.addCleanup(self.close_all)
        (self.folder / "text").write_text("".join(f"line {i} of a text that repeats itself\n" for i in range(500)))

    def close_all(self):
        for started in self.started:
            if started.program.poll() is None:
                started.program.send_signal(signal.SIGKILL)
                started.program.wait()
            started.output.close()

    def recipe(self, name, steps=12, timeout_s=60):
        text = RECIPE.format(steps=steps, timeout_s=timeout_s, save=name)
        (self.folder / f"{name}.toml").write_text(text)
        return f"{name}.toml"

    def train_alone(self, name, ranks, **recipe):
        words = [WEFT, "train", self.recipe(name, **recipe), "-n", str(ranks), "--save", f"{name}.safetensors"]
        status, out, err = self.hosts[0].run(["env", "-C", self.folder, *words])
        self.assertEqual(status, 0, out + err)

    def assert_nothing_runs(self, host):
        """Checks that only the process that holds the host remains."""
        def programs():
            _, text, _ = host.run(["ps", "-e", "-o", "pid=,args="])
            return [line for line in text.splitlines() if "defunct" not in line and "sshd" not in line and ("weft" in line or "sh -c" in line or "sleep 6" in line)]
        try:
            wait_for(lambda: not programs(), "end of all programs", 5)
        except TimeoutError:
            raise AssertionError(f"left on {host.name}: {programs()}") from None
