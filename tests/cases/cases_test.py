#!/usr/bin/env -S python3 -B
"""Reported inputs and programs, from the shared folder next to the repository: checks weft's result for each.

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
        """Runs a case of the program; returns its status, and keeps its output in `said`."""
        launch = [] if ranks == 1 else [WEFT, "run", "-n", ranks, "--"]
        return self.run_command([*launch, PROGRAM, *words.split()])

    def train(self, recipe, *changes, command="train"):
        """Trains a recipe of the cases; its files must be in the test's folder already."""
        if not (self.folder / recipe).exists():
            shutil.copy(CASES / "recipes" / recipe, self.folder)
        sets = [word for change in changes for word in ("--set", change)]
        return self.run_command([WEFT, *command.split(), recipe, *sets])

    def numbers(self, pattern):
        return [float(number) for number in re.findall(pattern, self.said)]

    def refused(self, status, *words):
        """Checks for a failure whose output matches these patterns."""
        self.assertNotEqual(status, 0, self.said)
        for word in words:
            self.assertRegex(self.said, word)


class Library(Case):
    """Cases of library_cases.cpp, by name."""

    def test_buffers_of_whole_numbers_are_saved(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.assertEqual(self.library("perm", ranks), 0, self.said)
                saved = self.numbers(r"evaluation loss ([\d.]+)")
                self.assertTrue(saved, self.said)
                self.assertEqual(self.library("perm load=1", ranks), 0, self.said)
                self.assertEqual(self.numbers(r"evaluation loss ([\d.]+)"), saved)
                self.assertIn("left out: 0 lines", self.said)

    def test_constant_buffers_stay_wide(self):
        for precision in ("bf16", "fp16"):
            with self.subTest(precision=precision):
                self.assertEqual(self.library(f"buffer prec={precision}"), 0, self.said)
                self.assertIn("buffer dtype Float  table 257.000000 100001.000000 0.10000000", self.said)

    def test_modes_of_submodules_are_kept(self):
        for evaluate in (0, 1):
            with self.subTest(evaluate=evaluate):
                self.assertEqual(self.library(f"evalmode evaluate={evaluate}"), 0, self.said)
                self.assertAlmostEqual(self.numbers(r"loss ([\d.]+)")[-1], 1.31470966, places=5)
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
        masked = self.numbers(r"masked sum (-?[\d.]+)")
        self.assertLess(min(abs(sum - plain[0]) for sum in masked), 1e-5, self.said)  # summed in another order

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
        self.refused(self.library("bn1"), r"block '1'", r"batch\.micro")

    def test_unused_parameters_stay(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.assertEqual(self.library("unused", ranks), 0, self.said)
                before = self.numbers(r"before spare.weight sum (\S+)") + self.numbers(r"before .* sq (\S+)")
                after = self.numbers(r" spare.weight:([^/]+)/") + self.numbers(r" spare.weight:[^/]+/(\S+)")
                self.assertEqual([f"{number:.6g}" for number in after], [f"{number:.6g}" for number in before])


class Weights(Case):
    def evaluate(self, weights, *changes):
        for name in ("llama.toml", "text.txt"):
            shutil.copy(CASES / "recipes" / name, self.folder)
        return self.train("llama.toml", f"model.weights={CASES / 'weights' / weights}", *changes)

    def test_the_loss_of_transformers(self):
        self.assertEqual(self.evaluate("llama_plain"), 0, self.said)
        self.assertIn("6.9391", self.said)

    def test_what_the_model_lacks(self):
        self.refused(self.evaluate("llama_bias"), "attention_bias")
        self.refused(self.evaluate("llama_scaled"), "rope", "model.rope_theta")

    def test_a_pointer_of_git_lfs(self):
        self.refused(self.evaluate("st_lfs.safetensors"), "Git LFS")

    def test_matrices_of_another_orientation(self):
        gpt = ("model.name=gpt", "model.vocabulary=256")
        (self.folder / "gpt.toml").write_text((CASES / "recipes" / "llama.toml").read_text().replace("llama", "gpt")
                                              .replace("kv_heads = 2, ", "").replace(", ffn = 128", ""))
        shutil.copy(CASES / "recipes" / "text.txt", self.folder)
        weights = CASES / "weights"
        self.refused(self.train("gpt.toml", *gpt, f"model.weights={weights / 'gpt2'}"), r"\[in, out\]", "transpose")
        self.refused(self.train("gpt.toml", *gpt, f"model.weights={weights / 'nano_ckpt.pt'}"), "_orig_mod", "model.weight_names")
        self.assertEqual(self.train("gpt.toml", *gpt, f"model.weights={weights / 'nano_ckpt.pt'}",
                                    f"model.weight_names={weights / 'nano_names.json'}"), 0, self.said)


class Data(Case):
    def images(self, *names):
        """A folder of two classes for training and evaluation, four images each, plus `names` in train/a."""
        for part in ("train", "val"):
            for kind in ("a", "b"):
                folder = self.folder / "folders" / part / kind
                folder.mkdir(parents=True)
                for number in range(4):
                    shutil.copy(CASES / "images" / "30.JPEG", folder / f"{number}.jpg")
        for name in names:
            shutil.copy(CASES / "images" / name, self.folder / "folders" / "train" / "a")
        return f"data.path={self.folder / 'folders'}"

    def check(self, recipe, *changes):
        return self.train(recipe, *changes, command="data check")

    def test_batch_norm_of_one_value(self):
        where = self.images()
        for recipe, *ranks in (("bn.toml",), ("bn_pp.toml", "layout.pp=2", "batch.global=2", "batch.micro=1")):
            with self.subTest(recipe=recipe):
                shutil.copy(CASES / "recipes" / recipe, self.folder)
                sets = [word for change in (where, *ranks) for word in ("--set", change)]
                status = self.run_command([WEFT, "train", recipe, "-n", "2" if ranks else "1", *sets])
                self.refused(status, "one value per channel", r"batch\.micro")
                self.assertNotIn("step 1/", self.said)

    def test_images(self):
        ok = self.images("01_cmyk.jpg", "06_palette_trns.png", "09_rgba_white_under_0.png")
        self.assertEqual(self.check("bn.toml", ok), 0, self.said)
        self.assertIn("11 images of 2 classes", self.said)
        for name in ("15_webp_named.jpg", "19_trunc_half.jpg"):
            shutil.copy(CASES / "images" / name, self.folder / "folders" / "train" / "a")
        self.refused(self.check("bn.toml", ok), r"damaged: 2", "15_webp_named.jpg: .*WebP", "19_trunc_half.jpg")

    def test_a_truncated_image_is_damaged_with_any_crop(self):
        where = self.images()
        whole = (CASES / "images" / "30.JPEG").read_bytes()
        cut = self.folder / "folders" / "train" / "a" / "0.jpg"
        cut.write_bytes(whole[:len(whole) * 97 // 100])
        for seed in range(1, 6):
            with self.subTest(seed=seed):
                self.refused(self.train("trunc97.toml", where, f"run.seed={seed}", "run.epochs=1"), "a/0.jpg")

    def test_archives(self):
        for name, images in (("dots", 5), ("mac", 4)):
            with self.subTest(name=name):
                paths = [f"data.{key}={CASES / 'tars' / name}.tar" for key in ("path", "evaluation_path")]
                self.assertEqual(self.check("wds.toml", *paths), 0, self.said)
                self.assertIn(f"training: {images} images", self.said)
        self.assertRegex(self.said, r"skipped, not data: 8")
        self.refused(self.check("wds.toml", f"data.path={CASES / 'tars' / 'webp.tar'}"), r"webp\.tar", r"\.webp")

    def test_tokens(self):
        tokens = CASES / "tokens"
        for name, count in (("llmc.bin", 20000), ("nano_owt/train.bin", 18000)):
            with self.subTest(name=name):
                self.assertEqual(self.check("tok.toml", f"data.path={tokens / name}"), 0, self.said)
                self.assertIn(f"{count} tokens, the largest id 50256", self.said)
        self.refused(self.check("tok.toml", f"data.path={tokens / 'nano_owt'}"), "'train.bin' for training and 'val.bin' for evaluation")

    def test_rows_of_json(self):
        recipe = (CASES / "recipes" / "tok.toml").read_text().replace('"tokens", tokenizer = "uint16"', '"jsonl"')
        (self.folder / "rows.toml").write_text(recipe.replace(", vocabulary = 50304", ""))
        for name, documents in (("ok", 6), ("nan", 13), ("bignum", 7)):
            with self.subTest(name=name):
                self.assertEqual(self.check("rows.toml", f"data.path={CASES / 'jsonl' / name}.jsonl"), 0, self.said)
                self.assertIn(f"in {documents} documents", self.said)
        status = self.check("rows.toml", f"data.path={CASES / 'jsonl' / 'surrogate_lone.jsonl'}")
        self.refused(status, "row 7: 'text' has .*surrogate")


class Unfreezing(Case):
    def test_late_unfrozen_parameters_move_as_in_a_fresh_run(self):
        self.assertEqual(self.train("frz.toml"), 0, self.said)
        shutil.copy(CASES / "recipes" / "unfrz.toml", self.folder)
        self.assertEqual(self.run_command([WEFT, "train", "unfrz.toml", "--resume-anyway", "--set", "run.steps=1010"]), 0, self.said)
        for step, most in ((1001, 1.01e-3), (1010, 10.1e-3)):  # at a rate of 1e-3; with an age of 1000 steps: 2.5e-3 and 39.6e-3
            self.run_command([WEFT, "checkpoint", "diff", f"runs/ufz/step-{step:08}", "runs/ufz/step-00001000"])
            moves = self.numbers(r"model/hidden\S+: .* differ, by at most ([\d.e-]+)")
            self.assertEqual(len(moves), 2, self.said)
            self.assertLess(max(moves), most, self.said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
