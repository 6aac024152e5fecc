#!/usr/bin/env -S python3 -B
"""Inputs and programs that people brought, in the shared folder beside the repository: what weft makes of each, and what is right.

usage: cases_test.py WEFT CASES_PROGRAM CASES_FOLDER   (the program is built from library_cases.cpp of that folder)
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

WEFT, PROGRAM, CASES = (pathlib.Path(word).resolve() for word in sys.argv[1:4])


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weft_cases_"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "runs").mkdir()

    def run_command(self, words):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("WEFT_")} | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run([str(word) for word in words], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=120)
        self.said = done.stdout + done.stderr
        return done.returncode

    def library(self, words, ranks=1):
        """What a case of the program prints, and its status."""
        launch = [] if ranks == 1 else [WEFT, "run", "-n", ranks, "--"]
        return self.run_command([*launch, PROGRAM, *words.split()])

    def train(self, recipe, *changes, command="train"):
        """Trains by a recipe of the folder, whose files have to be there already."""
        if not (self.folder / recipe).exists():
            shutil.copy(CASES / "recipes" / recipe, self.folder)
        sets = [word for change in changes for word in ("--set", change)]
        return self.run_command([WEFT, command, recipe, *sets])

    def numbers(self, pattern):
        return [float(number) for number in re.findall(pattern, self.said)]

    def refused(self, status, *words):
        """In one line that has these words."""
        self.assertNotEqual(status, 0, self.said)
        for word in words:
            self.assertRegex(self.said, word)


class Library(Case):
    """library_cases.cpp, by name."""

    def test_buffers_of_whole_numbers_are_saved(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.assertEqual(self.library("perm", ranks), 0, self.said)
                saved = self.numbers(r"evaluation loss ([\d.]+)")
                self.assertEqual(self.library("perm load=1", ranks), 0, self.said)
                self.assertEqual(self.numbers(r"evaluation loss ([\d.]+)"), saved)
                self.assertIn("left out: 0 lines", self.said)
        self.assertEqual(saved, [0.01169])

    def test_constant_buffers_stay_wide(self):
        for precision in ("bf16", "fp16"):
            with self.subTest(precision=precision):
                self.assertEqual(self.library(f"buffer prec={precision}"), 0, self.said)
                self.assertIn("buffer dtype Float  table 257.000000 100001.000000 0.10000000", self.said)

    def test_modes_of_submodules_are_kept(self):
        for evaluate in (0, 1):
            with self.subTest(evaluate=evaluate):
                self.assertEqual(self.library(f"evalmode evaluate={evaluate}"), 0, self.said)
                self.assertEqual(self.numbers(r"loss ([\d.]+)")[-1], 1.31470966)
                self.assertEqual(set(re.findall(r"bn.is_training (\d)", self.said)), {"0"})

    def test_an_unfrozen_parameter_starts_afresh(self):
        for words in ("unfreeze", "switch from=sgd", "switch from=lion", "switch from=rmsprop"):
            with self.subTest(case=words):
                self.assertEqual(self.library(words), 0, self.said)
                moves = self.numbers(r"1\.weight (?:\(just unfrozen\) )?([\d.]+)(?:;|\n|$)")
                self.assertGreaterEqual(len(moves), 4, self.said)
                for move in moves:
                    self.assertAlmostEqual(move, 1.0, delta=0.01, msg=self.said)

    def test_the_callers_grad_mode(self):
        self.assertEqual(self.library("nested"), 0, self.said)
        plain = self.numbers(r"step \d loss ([\d.]+)")
        self.assertGreater(min(self.numbers(r"norm ([\d.]+)")), 0)
        for which in ("nograd", "inference", "second"):
            with self.subTest(which=which):
                self.assertEqual(self.library(f"nested which={which}"), 0, self.said)
                self.assertEqual(self.numbers(r"step \d loss ([\d.]+)"), plain)

    def test_random_numbers_of_blocks(self):
        self.assertEqual(self.library("ownrandom"), 0, self.said)
        plain = self.numbers(r"sum of w's gradient (-?[\d.]+)")
        self.assertEqual(self.library("ownrandom recompute=1"), 0, self.said)
        self.assertEqual(self.numbers(r"sum of w's gradient (-?[\d.]+)"), plain)
        self.assertIn(plain[0], self.numbers(r"masked sum (-?[\d.]+)"))

    def test_random_numbers_of_the_caller(self):
        self.assertEqual(self.library("rng"), 0, self.said)
        alone = self.numbers(r"points drawn (-?[\d.]+)")
        self.assertEqual(self.library("rng", 2), 0, self.said)
        for rank in (0, 1):
            self.assertEqual(self.numbers(rf"rank {rank} step \d: sum of the points drawn (-?[\d.]+)"), alone)

    def test_requires_grad_after_the_start(self):
        for which in ("freeze", "unfreeze"):
            with self.subTest(which=which):
                self.refused(self.library(f"toggle which={which}"), r"0\.weight")
        self.assertEqual(self.library("toggle which=none"), 0, self.said)

    def test_gradients_that_are_not_finite(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.refused(self.library("nangrad", ranks), "not finite")
                self.assertNotRegex(self.said, r"[1-9]\d* of 58 weights are not finite")

    def test_batch_norm_of_one_value(self):
        self.refused(self.library("bn1"), "BatchNorm", r"micro")

    def test_unused_parameters_stay(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.assertEqual(self.library("unused", ranks), 0, self.said)
                before = re.search(r"before spare.weight sum (\S+) sq (\S+)", self.said).groups()
                self.assertIn(f"spare.weight:{before[0]}/{before[1]}", self.said)


class Weights(Case):
    def evaluate(self, weights, *changes):
        for name in ("llama.toml", "text.txt"):
            shutil.copy(CASES / "recipes" / name, self.folder)
        return self.train("llama.toml", f"model.weights={CASES / 'weights' / weights}", *changes)

    def test_the_loss_of_transformers(self):
        self.assertEqual(self.evaluate("llama_plain"), 0, self.said)
        self.assertIn("6.939", self.said)

    def test_what_the_model_lacks(self):
        self.refused(self.evaluate("llama_bias"), "bias")
        self.refused(self.evaluate("llama_scaled"), "rope")

    def test_a_pointer_of_git_lfs(self):
        self.refused(self.evaluate("st_lfs.safetensors"), "Git LFS")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
