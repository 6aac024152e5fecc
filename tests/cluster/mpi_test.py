"""Ranks started by mpirun: on one host, and on the hosts of a SLURM job, whose own variables disagree."""

import hashlib
import os
import tempfile
import unittest
from pathlib import Path

from slurm_cluster import SlurmCluster

WEFT = os.environ["WEFT"]
RECIPE = """
model = {{ name = "gpt", layers = 1, heads = 2, width = 16, context = 16 }}
data = {{ name = "text", path = "{folder}/text" }}
batch = {{ global = 16 }}
run = {{ steps = 10, threads = 1, reproducible_slots = 4, timeout_s = 30 }}
"""
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class MpiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = SlurmCluster(2)
        cls.addClassCleanup(cls.cluster.close)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weft-mpi-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "text").write_text("".join(f"{i * i} is the square of {i}. " for i in range(2000)), encoding="utf-8")
        self.recipe = self.folder / "r.toml"
        self.recipe.write_text(RECIPE.format(folder=self.folder), encoding="utf-8")

    def train(self, *starter, expect=0, more=()):
        """Trains; returns the digest of the weights and the output, or the error text of an expected failure."""
        weights = self.folder / "weights"
        status, out, err = self.cluster.run([*starter, WEFT, "train", self.recipe, "--save", weights, *more], AS_ROOT)
        self.assertEqual(status, expect, f"{starter}: {out}{err}")
        return err if expect else (hashlib.sha256(weights.read_bytes()).hexdigest(), out)

    def test_one_host(self):
        alone, _ = self.train(more=["-n", "2"])
        weights, out = self.train("mpirun", "-n", "2", "--oversubscribe")
        self.assertEqual(weights, alone)
        self.assertIn("2 ranks with", out)
        self.assertIn("1 rank with", self.train("mpirun", "-n", "1")[1])

    def test_hosts_of_a_job(self):
        alone, _ = self.train(more=["-n", "4"])
        of_job = ["salloc", "-N2", "--ntasks-per-node=2", "mpirun", "-n", "4"]
        self.assertEqual(self.train(*of_job, "-x", "MASTER_ADDR=host1")[0], alone)
        self.assertIn("4 ranks on several hosts, but MASTER_ADDR is not set", self.train(*of_job, expect=1))

    def test_a_rank_that_fails(self):
        err = self.train("mpirun", "-n", "2", "--oversubscribe", expect=1, more=["--set", "data.path=/none"])
        self.assertIn("weft: rank 0: ", err)


if __name__ == "__main__":
    unittest.main()
