"""Ranks started by mpirun: on one host, and on the hosts of a SLURM job, whose own variables disagree. Programs in C and Fortran."""

import hashlib
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from slurm_cluster import SlurmCluster

WEFT = os.environ["WEFT"]
ROOT = Path(__file__).resolve().parents[2]
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

    def build(self, source, *compiler):
        """Builds an example that uses weft.h."""
        program, library = self.folder / Path(source).stem, Path(WEFT).resolve().parent
        module = [ROOT / "weft/c/weft.f90"] if source.endswith(".f90") else []
        subprocess.run([*compiler, *module, ROOT / "examples" / source, "-o", program, f"-L{library}", "-lweft_c", f"-Wl,-rpath,{library}"], check=True)
        return program

    def output(self, ranks, *program):
        status, out, err = self.cluster.run(["mpirun", "-n", str(ranks), "--oversubscribe", *program], AS_ROOT)
        self.assertEqual(status, 0, out + err)
        return out.splitlines()

    def test_a_c_program(self):
        program = self.build("train_in_c.c", "cc", f"-I{ROOT}/weft/c")
        alone = self.output(1, program)
        self.assertRegex(alone[-2], r"step 100: loss 0\.\d+")
        self.assertEqual(self.output(2, program), alone)

    def test_a_fortran_program(self):
        program = self.build("train_in_fortran.f90", "mpifort", "-Wall", "-J", self.folder)
        alone, two = (self.output(ranks, program, "127.0.0.1:29500") for ranks in (1, 2))
        self.assertRegex(alone[2], r"step 60: loss 0?\.\d+")
        self.assertEqual(two[:3], alone[:3])
        self.assertEqual([alone[3], two[3]], ["unseen: 64 of 64 right", "unseen: 128 of 128 right"])

    def test_a_simulation_that_trains(self):
        program = self.build("simulation/simulation.f90", "mpifort", "-Wall", "-J", self.folder)
        for ranks in 1, 2:
            lines = self.output(ranks, program, "127.0.0.1:29500", ROOT / "tests/exported/programs/stencil.pt2")
            stencil = [round(float(x), 2) + 0.0 for line in lines[-3:] for x in line.split()]
            self.assertEqual(stencil, [0, 0.15, 0, 0.25, 0.5, 0.05, 0, 0.05, 0], lines)


if __name__ == "__main__":
    unittest.main()
