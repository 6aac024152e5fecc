"""Trainings that SLURM starts, ends and requeues, and that lose nodes: a real slurmctld, two nodes (slurm_cluster.py)."""

import hashlib
import os
import re
import tempfile
import unittest
from pathlib import Path

from hosts import wait_for
from slurm_cluster import SlurmCluster

WEFT = os.environ["WEFT"]
RECIPE = """
model = {{ name = "gpt", layers = 1, heads = 2, width = 16, context = 16 }}
data = {{ name = "text", path = "{folder}/text" }}
batch = {{ global = 16 }}
optimizer = {{ lr = 1e-3, clip = 1.0 }}
run = {{ steps = 20, threads = 1, reproducible_slots = 4, timeout_s = 30 }}
"""


class SlurmTest(unittest.TestCase):
    uninterrupted = None  # weights of the long training

    @classmethod
    def setUpClass(cls):
        cls.cluster = SlurmCluster(2)
        cls.addClassCleanup(cls.cluster.close)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weft slurm's $-")  # every script must quote this
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "text").write_text("".join(f"{i * i} is the square of {i}. " for i in range(2000)), encoding="utf-8")
        self.recipe = self.folder / "the recipe.toml"
        self.recipe.write_text(RECIPE.format(folder=self.folder), encoding="utf-8")

    def run_on(self, *argv, expect=0, **options):
        status, out, err = self.cluster.run(argv, **options)
        self.assertEqual(status, expect, f"{argv}: {out}{err}")
        return out, err

    def train(self, before, *more):
        """Trains; returns the digest of the final weights."""
        weights = self.folder / "weights"
        self.run_on(*before, WEFT, "train", self.recipe, "--save", weights, *more)
        return hashlib.sha256(weights.read_bytes()).hexdigest()

    def script(self, *more):
        file = self.folder / "job.sbatch"
        self.run_on(WEFT, "slurm", self.recipe, "-o", file, *more, cwd=self.folder)
        return file

    def log(self, job):
        file = self.folder / f"log-{job}"
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def test_tasks_are_ranks(self):
        for nodes, ranks in ((2, 2), (2, 4), (1, 2)):
            alone = self.train([], "-n", str(ranks))
            self.assertEqual(self.train(["srun", f"-N{nodes}", f"-n{ranks}"]), alone, f"{ranks} ranks on {nodes} nodes")

    def test_one_task_per_host_starts_its_ranks(self):
        alone = self.train([], "-n", "4")
        self.assertEqual(self.train(["srun", "-N2", "--ntasks-per-node=1"], "-n", "2"), alone)
        expected, job = self.begin_slowly("-n", "1", "--restarts", "1")
        self.run_on("scancel", "--signal=USR1", job)
        self.wait_for_log(job, ": requeued to continue")
        self.slow(None)
        log, weights = self.ended(job)
        self.assertIn("stopped as requested, and saved", log)
        self.assertEqual(weights, expected)
        _, err = self.run_on("srun", "-N2", "-n4", WEFT, "train", self.recipe, "-n", "2", expect=1)
        self.assertIn("srun started 4 tasks on 2 hosts, and -n asks for further ranks", err)

    def test_concurrent_steps_stay_separate(self):
        step = f"srun -N2 -n2 --exact '{WEFT}' train the*.toml --summary"
        self.run_on("salloc", "-N2", "--ntasks-per-node=2", "bash", "-c", f"{step} a & {step} b && wait $!", cwd=self.folder)
        self.assertIn('"world":2', re.sub(r"\s", "", (self.folder / "a").read_text() + (self.folder / "b").read_text()))

    def test_outside_a_step_there_is_one_rank(self):
        (self.folder / "b.sh").write_text(f"#!/bin/bash\n'{WEFT}' train the*.toml && '{WEFT}' train the*.toml -n 2\n")
        self.run_on("sbatch", "-W", "-N2", "--ntasks-per-node=2", "-o", "out", "b.sh", cwd=self.folder)
        self.assertEqual(re.findall(r"(\d) ranks? with", (self.folder / "out").read_text()), ["1", "2"])
        out, _ = self.run_on("salloc", "-N2", "-n4", WEFT, "train", self.recipe)
        self.assertIn("1 rank with", out)

    def test_a_rank_that_fails_is_named(self):
        _, err = self.run_on("srun", "-N2", "-n4", "bash", "-c", f"[ $SLURM_PROCID != 2 ] || exit 1; exec '{WEFT}' train the*.toml "
                             "--set run.timeout_s=3", expect=1, cwd=self.folder)
        self.assertRegex(err, "weft: rank [013]: .*rank 2")

    def test_a_rank_with_another_secret_is_kept_out(self):
        _, err = self.run_on("srun", "-N2", "-n2", "bash", "-c", f"[ $SLURM_PROCID = 0 ] || export WEFT_TOKEN=guessed; exec '{WEFT}' "
                             "train the*.toml --set run.timeout_s=3", expect=1, cwd=self.folder)
        self.assertRegex(err, "weft: rank 1: .*token")

    def test_a_heterogeneous_job_is_refused(self):
        _, err = self.run_on("srun", "-n1", WEFT, "train", self.recipe, ":", "-n1", WEFT, "train", self.recipe, expect=1)
        self.assertIn("SLURM_HET_SIZE=2: ", err)

    def long_training(self):
        """Weights of an uninterrupted long training, and the options of one that saves."""
        steps = ("--set", "run.steps=300")
        type(self).uninterrupted = self.uninterrupted or self.train([], "-n", "2", *steps)
        return self.uninterrupted, (*steps, "--set", f"save.folder={self.folder}/runs", "--set", "save.every=5 steps", "--set", "save.keep=0", "-N", "2")

    def ended(self, job):
        """Waits for the end of a job; returns its log and weights."""
        state = self.cluster.wait_for_state(job, ("COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT"), 90)
        self.assertEqual(state["JobState"], "COMPLETED", self.log(job))
        return self.log(job), self.weights_saved()

    def weights_saved(self):
        weights = self.folder / "weights"
        self.run_on(WEFT, "checkpoint", "export", self.folder / "runs", weights)
        return hashlib.sha256(weights.read_bytes()).hexdigest()

    def slow(self, rate="1mbit"):
        """Slows steps across hosts, until called with None."""
        for host in self.cluster.network.hosts[1:]:
            self.cluster.network.limit(host, rate)

    def wait_for_log(self, job, text, seconds=60):
        wait_for(lambda: text in self.log(job), f"'{text}' in the log of job {job}", seconds)

    def begin_slowly(self, *more, log="log-%j"):
        """Submits a long training; returns after its first save, long before its end."""
        expected, options = self.long_training()
        self.slow()
        self.addCleanup(self.slow, None)
        job = self.cluster.submit(self.script(*options, *more, "--log", f"{self.folder}/{log}"))
        self.wait_for_log(job, "saved ")
        return expected, job

    def test_a_run_saved_before_its_time_limit_resumes(self):
        # SLURM checks times every half minute: it signals at the first check.
        expected, job = self.begin_slowly("--time", "1", "--signal-before", "30", "--set", "save.deadline_s=20")
        self.wait_for_log(job, ": requeued to continue")
        self.slow(None)
        log, weights = self.ended(job)
        self.assertIn("stopped as requested, and saved", log)
        self.assertRegex(log, r"resuming from .*/step-0*\d+")
        self.assertIn(f"job {job}, start 1: on host", log)
        self.assertEqual(weights, expected)

    def test_an_array_continues_until_done(self):
        expected, job = self.begin_slowly("--array", "3", log="log-%A")
        self.slow(None)
        first = re.match(r"job (\d+), start 0", self.log(job))[1]
        self.cluster.run(["scancel", "--signal=USR1", first])  # its status, for an array job, is wrong in SLURM 22.05
        wait_for(lambda: not self.run_on("squeue", "-h", "-j", job)[0], "end of the array", 60)
        self.assertRegex(self.log(job), "(?s)the next job of the array continues.*resuming from ")
        self.assertEqual(self.cluster.job(f"{job}_2")["JobState"], "COMPLETED")
        self.assertEqual(self.cluster.job(f"{job}_3")["JobState"], "CANCELLED")
        self.assertEqual(self.weights_saved(), expected)

    def test_a_node_that_dies(self):
        expected, job = self.begin_slowly()
        self.cluster.lose(self.cluster.network.hosts[2])
        self.cluster.wait_for_state(job, ("PENDING",))
        self.cluster.replace(2)
        self.slow(None)
        log, weights = self.ended(job)
        self.assertIn("resuming from ", log)
        self.assertEqual(weights, expected)

    def test_scancel_ends_the_run(self):
        _, job = self.begin_slowly()
        self.run_on("scancel", job)
        self.cluster.wait_for_state(job, ("CANCELLED",))
        self.assertNotIn("requeued", self.log(job))

    def test_a_dead_rank_is_restarted_within_the_job(self):
        expected, job = self.begin_slowly("--restarts", "1")
        self.run_on("scancel", "--signal=KILL", f"{job}.0")
        self.slow(None)
        log, weights = self.ended(job)
        self.assertRegex(log, "(?s)failed with status 137.*resuming from ")
        self.assertEqual(weights, expected)


if __name__ == "__main__":
    unittest.main()
