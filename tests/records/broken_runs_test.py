#!/usr/bin/env -S python3 -B
"""Runs that are broken on purpose: each says its cause in its events, on weft watch's page and in weft report.

Slow links and slow ranks of several hosts: tests/cluster/stragglers_test.py. A NaN's sample: tests/train/trainer/bad_step_test.cpp.
"""
import argparse
import ctypes
import html
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from images import png

GPT = """
model = { name = "gpt", layers = 2, heads = 2, width = 16, context = 16 }
data = { name = "text", path = "text" }
batch = { global = 8, micro = 4 }
run = { steps = 12, evaluate_every = 0, threads = 1, timeout_s = 20 }
"""
CNN = """
model = { name = "cnn", width = 8, classes = 10 }
data = { name = "fashion-mnist" }
batch = { global = 64 }
optimizer = { name = "sgd", lr = 0.01 %s }
run = { steps = 90, evaluate_every = 0, threads = 1 }
"""
IMAGES = """
model = { name = "mlp", layers = 1, width = 8, channels = 3, image_size = 8, classes = 2 }
data = { name = "image-folder", path = "images", workers = 0 }
batch = { global = 8 }
run = { steps = 60, evaluate_every = 0, threads = 1 }
"""
OPTIONS = argparse.Namespace()


class BrokenRuns(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="weft_broken_")
        cls.folder = pathlib.Path(cls.temporary.name)
        (cls.folder / "text").write_text("".join(f"line {i} of a text that repeats itself\n" for i in range(2000)))
        (cls.folder / "gpt.toml").write_text(GPT)
        (cls.folder / "cnn.toml").write_text(CNN % "")
        (cls.folder / "slow_images.toml").write_text(IMAGES)
        (cls.folder / "frozen.toml").write_text(CNN % ', groups = [{ names = "stage*", frozen = true }]')

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def weft(self, *words, environment=(), status=0):
        done = subprocess.run([OPTIONS.weft, *map(str, words)], cwd=self.folder, env=os.environ | dict(environment), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
        self.assertEqual(done.returncode, status, f"{words}: {done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return " ".join((done.stdout + done.stderr).split())

    def train(self, name, recipe, *keys, ranks=1, environment=(), status=0):
        sets = [word for key in (f"run.folder={name}", *keys) for word in ("--set", key)]
        return self.weft("train", recipe, "-n", ranks, *sets, environment=environment, status=status)

    def events(self, name):
        return [json.loads(line) for line in (self.folder / name / "events.jsonl").read_text().splitlines()]

    def shows(self, name, event, *texts, kind=None):
        """An event has all texts; the page and the report have the first."""
        found = [e for e in self.events(name) if e["event"] == event and (kind is None or e.get("details", {}).get("kind") == kind)]
        self.assertTrue(any(all(text in e["text"] for text in texts) for e in found), self.events(name)[1:])
        self.assertIn(texts[0], " ".join(self.weft("watch", name, "--once").split()))
        self.weft("report", name, "-o", "report.html")
        self.assertIn(html.escape(texts[0]), html.escape(html.unescape((self.folder / "report.html").read_text())))

    def test_divergence(self):
        self.train("divergence", "cnn.toml", "optimizer.lr=1", "run.steps=70")
        self.shows("divergence", "warning", "the loss has risen", "optimizer.lr", kind="divergence")

    def test_dead_relus(self):
        self.train("dead", "cnn.toml", "optimizer.lr=0.6")
        self.shows("dead", "warning", "was exactly zero", "dead ReLUs", kind="idle")

    def test_frozen_by_mistake(self):
        self.train("frozen", "frozen.toml", "run.steps=3")
        self.shows("frozen", "note", "frozen, not trained: 6 of 10 parameters", "stage1.conv.weight")

    def test_starving_loader(self):
        for i in range(8):
            path = self.folder / "images" / ("train", "val")[i // 4 % 2] / f"class{i % 2}" / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(600, 30 * i))
        self.train("starving", "slow_images.toml")
        self.shows("starving", "warning", "for samples", "data.workers", kind="data")

    def test_slow_rank(self):
        process = subprocess.Popen([OPTIONS.weft, "train", "gpt.toml", "-n", "2", "--set", "run.folder=slow", "--set", "run.steps=100000",
                                    "--set", "model.width=64"], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        rank = None
        end = time.monotonic() + 60
        try:
            while time.monotonic() < end:
                if rank is None:
                    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
                    for child in children:
                        environment = pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
                        rank = int(child) if b"RANK=1" in environment else rank
                    time.sleep(0.05)
                    continue
                os.kill(rank, signal.SIGSTOP)
                time.sleep(0.02)
                os.kill(rank, signal.SIGCONT)
                time.sleep(0.004)
                if (self.folder / "slow" / "events.jsonl").exists() and any(" is behind: " in e["text"] for e in self.events("slow")):
                    break
        finally:
            os.kill(process.pid, signal.SIGTERM)
            process.wait(timeout=30)
        self.shows("slow", "note", "rank 1 on host", "is behind", "in compute")

    def test_leaking_memory(self):
        process = subprocess.Popen([OPTIONS.weft, "train", "gpt.toml", "--set", "run.folder=leak", "--set", "run.steps=1000000"],
                                   cwd=self.folder, env=os.environ | {"LD_PRELOAD": OPTIONS.leak}, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        try:
            while time.monotonic() < end:
                time.sleep(0.3)
                if (self.folder / "leak" / "events.jsonl").exists() and any(e.get("details", {}).get("kind") == "memory" for e in self.events("leak")):
                    break
        finally:
            process.terminate()
            process.wait(timeout=30)
        self.shows("leak", "warning", "memory", kind="memory")

    def test_not_finite(self):
        self.train("nan", "gpt.toml", "optimizer.name=sgd", "optimizer.lr=1e25", "optimizer.weight_decay=0", ranks=2, status=4)
        self.shows("nan", "error", "first not finite: rank", "block ", kind="not_finite")

    def test_hang(self):
        process = subprocess.Popen([OPTIONS.weft, "train", "gpt.toml", "-n", "2", "--set", "run.folder=hang", "--set", "run.steps=100000",
                                    "--set", "run.timeout_s=3"], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stopped = None
        try:
            while not (self.folder / "hang" / "metrics.jsonl").exists():
                time.sleep(0.05)
            for child in subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split():
                if b"RANK=1" in pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
                    stopped = int(child)
                    os.kill(stopped, signal.SIGSTOP)
            self.assertEqual(process.wait(timeout=60), 1)
        finally:
            process.kill()
        self.shows("hang", "warning", "rank 1", "did not come to", kind="hang")
        self.assertIn("rank 1", self.weft("blame", "hang"))

    def test_drifted_replica(self):
        self.train("drift", "gpt.toml", "layout.dp=2", "layout.backend=gloo", "run.audit_every=1", ranks=2,
                   environment={"LD_PRELOAD": OPTIONS.flipped_bit, "WEFT_FLIP_RANK": "1", "WEFT_FLIP_AFTER": "12"})
        self.shows("drift", "warning", "audit of step", "test the memory of", kind="audit")

    def test_data_after_weights_of_another_tool(self):
        self.weft("train", "gpt.toml", "--save", "w.safetensors", "--set", "run.steps=2")
        self.train("foreign", "gpt.toml", "model.weights=w.safetensors")
        self.shows("foreign", "note", "the data begins at its first sample", "optimizer state is new")

    def test_full_disk(self):
        disk = self.folder / "disk"
        disk.mkdir()
        self.assertEqual(ctypes.CDLL(None, use_errno=True).mount(b"none", bytes(disk), b"tmpfs", 0, b"size=256k"), 0)
        try:
            self.train("disk/run", "gpt.toml", f"save.folder={disk}/saved", "save.every=4", status=1)
            self.shows("disk/run", "error", "No space left on device", "saved")
        finally:
            ctypes.CDLL(None).umount2(bytes(disk), 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--weft", "--flipped-bit", "--leak"):
        parser.add_argument(option, required=True, type=os.path.abspath)
    arguments, rest = parser.parse_known_args(namespace=OPTIONS)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
