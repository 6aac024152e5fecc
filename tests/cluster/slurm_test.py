"""Trainings that SLURM starts, ends, requeues and loses nodes of: a real slurmctld, two nodes (slurm_cluster.py)."""

import hashlib
import os
import re
import signal
import subprocess
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
    @classmethod
    def setUpClass(cls):
        cls.cluster = SlurmCluster(2)
        cls.addClassCleanup(cls.cluster.close)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weft slurm's $-")  # which every script must quote
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
        """Trains; returns what the weights in the end are."""
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

    def test_steps_side_by_side_meet_apart(self):
        tell = f"srun -N2 -n2 --exact '{WEFT}' train the*.toml --summary"
        self.run_on("salloc", "-N2", "--ntasks-per-node=2", "bash", "-c", f"{tell} a & {tell} b && wait $!", cwd=self.folder)
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

    def test_a_heterogeneous_job_is_refused(self):
        _, err = self.run_on("srun", "-n1", WEFT, "train", self.recipe, ":", "-n1", WEFT, "train", self.recipe, expect=1)
        self.assertIn("SLURM_HET_SIZE=2: ", err)

    def long_training(self):
        """A script of one that saves, and the weights that nobody interrupted."""
        steps = ("--set", "run.steps=300")
        expected = self.train([], "-n", "2", *steps)
        return expected, (*steps, "--set", f"save.folder={self.folder}/runs", "--set", "save.every=20 steps", "--set", "save.keep=0",
                          "--set", "save.deadline_s=20", "--log", f"{self.folder}/log-%j", "-N", "2")

    def ended(self, job):
        """The log of a job that went to its end; its weights."""
        state = self.cluster.wait_for_state(job, ("COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT"), 90)
        self.assertEqual(state["JobState"], "COMPLETED", self.log(job))
        weights = self.folder / "weights"
        self.run_on(WEFT, "checkpoint", "export", self.folder / "runs", weights)
        return self.log(job), hashlib.sha256(weights.read_bytes()).hexdigest()

    def test_what_is_saved_before_the_time_is_over_goes_on(self):
        expected, options = self.long_training()
        script = self.script(*options, "--time", "2", "--signal-before", "60")
        log, weights = self.ended(self.cluster.submit(script))
        print(log)


if __name__ == "__main__":
    unittest.main()
