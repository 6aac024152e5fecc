#!/usr/bin/env -S python3 -B
"""Faults of disks, locks and second places, injected one at a time: what `weft train` says, how it ends, and what it leaves."""
import argparse
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

RECIPE = """
model = { name = "gpt", layers = 1, heads = 1, width = 16, context = 16 }
data = { name = "text", path = "text" }
batch = { global = 8, micro = 4 }
run = { steps = 4, threads = 1, timeout_s = 20 }
save = { folder = "runs", every = "2 steps" }
"""
OPTIONS = argparse.Namespace()


class Faults(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weft_faults_"))
        (self.folder / "r.toml").write_text(RECIPE)
        (self.folder / "text").write_text("".join(f"line {i} of a text that repeats itself\n" for i in range(300)))
        self.started = []

    def tearDown(self):
        for process in self.started:
            process.kill()
            process.wait()
        shutil.rmtree(self.folder)

    def words(self, more):
        return [OPTIONS.weft, "train", "r.toml", "--summary", "summary.json", *more]

    def failing(self, below="runs", **how):
        return {"LD_PRELOAD": OPTIONS.failpoint, "WEFT_FAIL_BELOW": str(self.folder / below)} | {f"WEFT_FAIL_{k}": v for k, v in how.items()}

    def train(self, *more, status=0, environment=None):
        done = subprocess.run(self.words(more), cwd=self.folder, env=os.environ | (environment or {}), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1 if status == 1 else 0, done.stderr)
        return done

    def start(self, *more, environment=None):
        with open(self.folder / "out", "w") as out, open(self.folder / "err", "w") as err:
            self.started.append(subprocess.Popen(self.words(more), cwd=self.folder, env=os.environ | (environment or {}),
                                                 stdin=subprocess.DEVNULL, stdout=out, stderr=err))
        return self.started[-1]

    def said(self, stream="out"):
        """Output of the run that was started last."""
        return (self.folder / stream).read_text()

    def ends(self, run, status, said=""):
        self.assertEqual(run.wait(timeout=60), status, self.said() + self.said("err"))
        if status != 1:
            self.assertEqual(self.said("err"), "")
        self.assertIn(said, self.said() + self.said("err"))

    def wait_until(self, condition, what, seconds=30):
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.01)

    def has(self, step, folder="runs"):
        return (self.folder / folder / f"step-{step:08}" / "complete.json").exists()

    def summary(self):
        return json.loads((self.folder / "summary.json").read_text())

    def digests(self):
        """Digests of everything saved."""
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(self.folder.glob("runs/step-*/*"))}

    # --- failing reads ------------------------------------------------------------------------------------------------------

    def test_a_read_that_fails_once_is_retried(self):
        self.train()
        for call in (1, 3, 6, 9, 12):
            with self.subTest(call=call):
                shutil.copytree(self.folder / "runs", self.folder / "before")
                self.train("--set", "run.steps=5", environment=self.failing(CALLS="reads", AT=str(call), TIMES="1", WITH="EIO"))
                self.assertEqual(self.summary()["resumed_from"], 4)
                shutil.rmtree(self.folder / "runs")
                (self.folder / "before").rename(self.folder / "runs")

    def test_a_read_that_keeps_failing_ends_the_run_and_changes_nothing(self):
        self.train("-n", "2")
        saved = self.digests()
        for how in ({"AT": "4"}, {"AT": "8"}, {"AT": "1", "RANK": "1"}):
            with self.subTest(**how):
                done = self.train("-n", "2", "--set", "run.steps=6", status=1,
                                  environment=self.failing(CALLS="reads", WITH="EIO", **({"RANK": "0"} | how)))
                self.assertIn("Input/output error", done.stderr)
                self.assertNotIn("skipped: ", done.stdout + done.stderr)
                self.assertEqual(self.digests(), saved)

    def test_a_damaged_named_checkpoint_is_reported(self):
        self.train()
        for file, said in (("index.json", "its SHA-256 is not the one in complete.json"), ("data-00000.bin", "damaged in tensor")):
            path = self.folder / "runs/step-00000004" / file
            good = path.read_bytes()
            path.write_bytes(good[:100] + bytes([good[100] ^ 1]) + good[101:])
            done = self.train("--resume", "runs/step-00000004", "--set", "run.steps=6", status=1)
            self.assertRegex(done.stderr, f"runs/step-00000004/{file}: .*{said}.*; it was chosen to resume from: name another")
            path.write_bytes(good)
        self.train("--resume", "runs/step-00000004", "--set", "run.steps=6")
        self.assertEqual(self.summary()["resumed_from"], 4)

    def test_older_checkpoints_are_not_read(self):
        self.train("--set", "save.every=1 steps", "--set", "save.keep=0")
        for step in (1, 2, 3):
            (self.folder / f"runs/step-{step:08}/index.json").write_text("damaged")
        self.assertNotIn("skipped: ", self.train("--set", "run.steps=5").stdout)
        self.assertEqual(self.summary()["resumed_from"], 4)

    # --- locks --------------------------------------------------------------------------------------------------------------

    def test_without_flock_a_second_run_is_refused_too(self):
        for error in ("ENOSYS", "ENOLCK"):
            with self.subTest(error=error):
                without = self.failing(LOCKS=error)
                first = self.start("--set", "run.steps=1000000", environment=without)
                self.wait_until(lambda: self.has(2), "the first run does not save")
                done = self.train("-n", "2", status=1, environment=without)
                self.assertIn(f"runs: another run saves its checkpoints there: process {first.pid} on ", done.stderr)
                first.send_signal(signal.SIGKILL)
                first.wait()
                self.train("--set", "run.steps=100000000", "--set", "run.seed=2", status=1, environment=without)  # a dead run holds no lock
                shutil.rmtree(self.folder / "runs")

    def test_a_dead_hosts_lock_is_waited_for(self):
        (self.folder / "runs").mkdir()
        with open(self.folder / "runs/.weft.lock", "w") as lock:  # as a file server keeps it until its lease expires
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.write("process 7 on elsewhere\nanother\n7 1\nholds 00000000000000000001\n")
            lock.flush()
            run = self.start("-n", "2", "--restarts", "10")
            waits = "runs is held by process 7 on elsewhere, which may have ended: waiting"
            self.wait_until(lambda: waits in self.said(), "the lock is not waited for")
            time.sleep(0.3)
            self.assertIsNone(run.poll())
        self.ends(run, 0)

    def test_a_live_hosts_lock_is_not_waited_for(self):
        (self.folder / "runs").mkdir()
        with open(self.folder / "runs/.weft.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            run, beats = self.start("-n", "2"), 0
            while run.poll() is None:
                beats += 1
                os.pwrite(lock.fileno(), f"process 7 on elsewhere\nanother\n7 1\nholds {beats:020}\n".encode(), 0)
                time.sleep(0.05)
        self.ends(run, 1, "another run saves its checkpoints there: process 7 on elsewhere;")

    # --- second places --------------------------------------------------------------------------------------------------------

    UPLOAD = ("--set", "save.upload=copy", "--set", "save.every=1 steps", "--set", "run.steps=8")

    def test_a_failing_second_place_is_reported_and_ends_nothing(self):
        for ranks in ("1", "2"):
            with self.subTest(ranks=ranks):
                done = self.train("-n", ranks, "--restarts", "3", *self.UPLOAD, status=5,
                                  environment=self.failing("copy", AT="20", WITH="EIO"))
                self.assertEqual(done.stdout.count("training continues, and each save retries"), 1, done.stdout)
                self.assertRegex(done.stdout, r"trained and saved, but the newest checkpoint is not in save.upload \(copy\): copy/.*"
                                              "Input/output error.*; the same command copies it")
                self.assertTrue(self.has(8) and not self.has(8, "copy"))
                self.train("-n", ranks, *self.UPLOAD)
                self.assertTrue(self.has(8, "copy"))
                shutil.rmtree(self.folder / "runs")
                shutil.rmtree(self.folder / "copy")

    def test_a_recovered_second_place_is_reported(self):
        done = self.train(*self.UPLOAD, "--set", "run.steps=300", environment=self.failing("copy", AT="20", TIMES="3", WITH="EIO"))
        self.assertEqual(done.stdout.count("training continues, and each save retries"), 1, done.stdout)
        self.assertEqual(done.stdout.count("save.upload: copied to copy again"), 1, done.stdout)
        self.assertTrue(self.has(300, "copy"))

    def test_a_second_place_that_vanishes_before_the_first_save(self):
        run = self.start(*self.UPLOAD, "--set", "run.steps=2000", "--set", "save.every=2000 steps")
        self.wait_until(lambda: "\nstep " in self.said(), "the run does not begin")
        shutil.rmtree(self.folder / "copy")
        (self.folder / "copy").write_text("a file now")
        self.ends(run, 5, "the newest checkpoint is not in save.upload")
        self.assertTrue(self.has(2000))

    def test_a_slow_second_place_delays_nothing(self):
        self.train("-n", "2", *self.UPLOAD, "--set", "run.timeout_s=2", environment=self.failing("copy", CALLS="all", DELAY="150"))
        self.assertTrue(self.has(8, "copy"))

    def test_a_missing_second_place_is_refused_at_the_start(self):
        (self.folder / "copy").write_text("a file")
        self.assertIn("copy", self.train(*self.UPLOAD, status=1).stderr)
        self.train()  # without save.upload
        self.train(*self.UPLOAD, status=5)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weft", required=True, type=os.path.abspath, help="the command")
    parser.add_argument("--failpoint", required=True, type=os.path.abspath, help="the library that fails system calls")
    OPTIONS, words = parser.parse_known_args()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    unittest.main(argv=[sys.argv[0], *words])
