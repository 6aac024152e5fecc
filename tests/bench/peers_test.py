#!/usr/bin/env -S python3 -B
"""bench/peers without its peer: computations, refusals, and a whole run with two fake programs."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest

PEERS = pathlib.Path(__file__).resolve().parents[2] / "bench" / "peers"
sys.path.insert(0, str(PEERS))
import measure  # noqa: E402
import prepare  # noqa: E402
import table  # noqa: E402
import work  # noqa: E402

TINY = dict(name="tiny", work=work.Gpt(context=8, width=16, layers=2, heads=2), batch=4, parameters=1234, steps=3, targets={})
COMPARISON = measure.Comparison(**TINY)
PEER = {"peer": "pytorch", "world": 2, "threads": 1, "params": 1234, "tokens_per_s": 100.0, "peak_rss_mb": 400}
WEFT = {"parameters": 1234, "world": 2, "threads_per_rank": 1, "steps": 5, "tokens_per_s": 80.0, "samples_per_s": 10.0,
        "layout": {"micro_batch": 4, "micro_batches_per_rank": 1}, "peak_rss_mb": [150.0, 160.0], "first_step_s": 0.5}


class Table(unittest.TestCase):
    def test_medians_and_ratios(self):
        samples = [{"tokens/s": (peer, weft)} for peer, weft in ((10, 30), (40, 20), (20, 25), (30, 60))]
        row, = table.rows_of(samples, {"tokens/s": table.Target(at_least=1.1)})
        self.assertEqual((row["peer"]["median"], row["peer"]["min"], row["peer"]["max"]), (25, 10, 40))
        self.assertEqual(row["peer"]["samples"], [10, 40, 20, 30])
        self.assertEqual(row["weft"]["median"], 27.5)
        self.assertAlmostEqual(row["ratio"], 1.1)
        self.assertIs(row["met"], True)

    def test_targets(self):
        for target, ratio, met in ((table.Target(at_least=1.3), 1.3, True), (table.Target(at_least=1.3), 1.29, False),
                                   (table.Target(at_most=0.4), 0.4, True), (table.Target(at_most=0.4), 0.41, False)):
            with self.subTest(target=str(target), ratio=ratio):
                self.assertIs(target.met(ratio), met)

    def test_numbers(self):
        for value, text in ((12345.6, "12 346"), (100, "100"), (99.94, "99.9"), (9.994, "9.99"), (0.5, "0.50")):
            self.assertEqual(table.number(value), text)

    def test_text(self):
        targets = {"tokens/s": table.Target(at_least=1), "MB": table.Target(at_most=0.5)}
        rows = table.rows_of([{"tokens/s": (2000, 3000), "MB": (400, 300), "own": (None, 2)},
                              {"tokens/s": (4000, 3000), "MB": (400, 300), "own": (None, 4)}], targets)
        self.assertEqual(table.text_of({"small": rows}), "\n".join((
            "size   measure                     peer                    weft  ratio   target",
            "small  tokens/s  3 000 (2 000 to 4 000)  3 000 (3 000 to 3 000)  1.00x    >= 1x  met",
            "small  MB              400 (400 to 400)        300 (300 to 300)  0.75x  <= 0.5x  NOT MET",
            "small  own                            -     3.00 (2.00 to 4.00)      -        -")))
        self.assertEqual(table.verdict_of({"small": rows}), "1 of 2 targets NOT met: small: MB")
        self.assertEqual(table.verdict_of({"small": rows[:1]}), "all 1 targets met")


class SameWork(unittest.TestCase):
    def test_equal(self):
        measure.check_same_work(COMPARISON, PEER, WEFT, steps=5)

    def test_each_difference(self):
        layout = {"micro_batch": 2, "micro_batches_per_rank": 1}
        for who, change, message in (
                ("peer", {"params": 1235}, "the peer's parameters are 1235, not 1234"),
                ("peer", {"world": 1}, "the peer's ranks"), ("peer", {"threads": 2}, "the peer's threads"),
                ("weft", {"parameters": 1}, "weft's parameters"), ("weft", {"world": 1}, "weft's ranks"),
                ("weft", {"threads_per_rank": 2}, "weft's threads"), ("weft", {"steps": 6}, "weft's steps"),
                ("weft", {"samples_per_s": 20.0}, "tokens per sample are 4, not 8"),
                ("weft", {"layout": layout}, "samples per replica")):
            with self.subTest(message), self.assertRaisesRegex(measure.BenchError, re.escape(message)):
                measure.check_same_work(COMPARISON, {**PEER, **(change if who == "peer" else {})},
                                        {**WEFT, **(change if who == "weft" else {})}, steps=5)

    def test_recipe(self):
        pipeline = measure.Comparison(**TINY, mode="pp", replicas=1, micro_batches=2, layout={"pp": 2})
        for comparison, batch, layout in ((COMPARISON, {"global": 8, "micro": 4}, {"dp": 2, "precision": "fp32"}),
                                          (pipeline, {"global": 4, "micro": 2},
                                           {"dp": 1, "precision": "fp32", "pp": 2})):
            recipe = tomllib.loads(measure.weft_recipe(comparison, pathlib.Path('/a "b"'), pathlib.Path("/c"), steps=5))
            self.assertEqual(recipe["batch"], batch)
            self.assertEqual(recipe["layout"], layout)
            self.assertEqual(recipe["data"]["path"], '/a "b"/data/tinyshakespeare.txt')
            self.assertEqual(recipe["run"], {"steps": 5, "threads": 1, "device": "cpu"})
            self.assertEqual((recipe["model"]["width"], recipe["model"]["context"]), (16, 8))

    def test_resnet(self):
        """Both get the same images, which are made once."""
        resnet = measure.Comparison(**dict(TINY, work=work.Resnet(depth=20, size=4, tuned=True)))
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            recipe = tomllib.loads(measure.weft_recipe(resnet, None, folder, steps=5))
            images = pathlib.Path(recipe["data"]["path"])
            command = measure.peer_command(resnet, None, folder, "python", 2, 3)
            self.assertEqual(command[command.index("--images") + 1], images)
            self.assertIn("--channels-last", command)
            self.assertEqual(set(resnet.work.peer_environment), {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"})
            self.assertEqual((recipe["model"]["depth"], recipe["model"]["image_size"]), (20, 4))
            self.assertEqual(recipe["batch"], {"global": 8, "micro": 4})
            train = (images / "train-images-idx3-ubyte").read_bytes()
            self.assertEqual(train[:16], bytes([0, 0, 8, 3, 0, 0, 4, 0, 0, 0, 0, 4, 0, 0, 0, 4]))
            self.assertEqual(len(train), 16 + 1024 * 4 * 4)
            self.assertLess(max((images / "train-labels-idx1-ubyte").read_bytes()[8:]), 10)
            stamp = (images / "train-images-idx3-ubyte").stat().st_mtime_ns
            measure.weft_recipe(resnet, None, folder, steps=5)
            self.assertEqual((images / "train-images-idx3-ubyte").stat().st_mtime_ns, stamp)

    def test_modules(self):
        """The Python module and the exported modules do the work of the recipe."""
        comparison = measure.Comparison(**TINY, python=True, replicas=1, micro_batches=2, layout={"pp": 2})
        command = [str(part) for part in measure.module_command(comparison, pathlib.Path("/s"), "python", 2, 3)]
        value = lambda name: command[command.index(name) + 1]  # noqa: E731
        self.assertEqual([value(name) for name in ("--ctx", "--dim", "--batch", "--micro", "--replicas", "--layout", "--warmup", "--steps")],
                         ["8", "16", "4", "2", "1", '{"pp": 2}', "2", "3"])
        exported = measure.Comparison(**dict(TINY, work=work.ExportedGpt(**vars(TINY["work"]))))
        with tempfile.TemporaryDirectory() as name:
            started = []
            exported.work.make_files(pathlib.Path(name), lambda *arguments: started.append(arguments))
            file = started[0][-1]
            file.touch()
            exported.work.make_files(pathlib.Path(name), lambda *arguments: started.append(arguments))
            self.assertEqual(len(started), 1)
            recipe = tomllib.loads(measure.weft_recipe(exported, pathlib.Path("/s"), pathlib.Path(name), steps=5))
        self.assertEqual(recipe["model"], {"name": "exported", "path": str(file), "context": 8, "vocabulary": 256, "inputs": "tokens"})
        self.assertEqual((recipe["batch"], recipe["optimizer"]["name"]), ({"global": 8, "micro": 4}, "adamw"))

    def test_module_report(self):
        lines = [json.dumps({"weft": rank, "world": 2, "peak_rss_mb": 100.0 + rank}) for rank in (1, 0)]
        self.assertEqual(measure.module_report(["noise", *lines]), {"weft": 0, "world": 2, "peak_rss_mb": [101.0, 100.0]})
        for missing in ([], lines[:1], lines[1:]):
            with self.assertRaisesRegex(measure.BenchError, f"printed {len(missing)} reports"):
                measure.module_report(missing)

    def test_peer_report(self):
        self.assertEqual(measure.peer_report(["W1121 noise", json.dumps(PEER), "{not it}"]), PEER)
        for lines in ([], [json.dumps(PEER)] * 2):
            with self.assertRaisesRegex(measure.BenchError, f"printed {len(lines)} reports"):
                measure.peer_report(lines)


class Commands(unittest.TestCase):
    def run_python(self, code, deadline_s=20):
        return measure.run_command([sys.executable, "-c", code], None, deadline_s, lambda lines: lines)

    def test_first_step_is_seen_before_the_end(self):
        outcome = self.run_python("import time; print('x'); print('step 1/1  loss', flush=True); time.sleep(0.3)")
        self.assertEqual(outcome.report, ["x", "step 1/1  loss"])
        self.assertGreater(outcome.command_s, outcome.first_step_s + 0.2)

    def test_failures(self):
        for code, deadline_s, message in (("import sys; print('a'); sys.exit('why')", 20, "status 1: .*why"),
                                          ("print('nothing')", 20, "reported no first step: nothing"),
                                          ("import time; time.sleep(60)", 0.2, "the limit is 0 s")):
            with self.subTest(message), self.assertRaisesRegex(measure.BenchError, message):
                self.run_python(code, deadline_s)

    def test_environment_names_no_rank(self):
        values = prepare.environment([pathlib.Path("/cuda/lib64")])
        self.assertEqual(values["OMP_NUM_THREADS"], "1")
        self.assertTrue(values["LD_LIBRARY_PATH"].startswith("/cuda/lib64"))
        self.assertNotIn("RANK", values)

    def test_last_line(self):
        for text, line in (("a\nERROR: b\nnotice\n", "ERROR: b"), ("a\nb\n\n", "b"), ("", "no message")):
            self.assertEqual(prepare.last_line(text), line)


# A fake Python with torch and a fake weft: each reads what to report from its command line.
FAKE = """#!{python}
import json, re, sys
arguments = sys.argv[1:]
if arguments[0] == "-c":
    sys.exit(0)
if arguments[0] == "-m" or arguments[0].endswith("jax_gpt.py"):
    value = lambda name: int(arguments[arguments.index(name) + 1])
    gpts = {{384: 10942464, 256: 3307008}} if "--kv_heads" not in arguments else {{384: 9638784}}
    params = gpts[value("--dim")] if "--dim" in arguments else {{20: 269722, 18: 11181642}}[value("--depth")]
    print(json.dumps(dict({peer}, params=params, images_per_s=50.0)))
else:
    recipe = open(arguments[1]).read()
    number = lambda key: int(re.search(key + r" = (\\d+)", recipe).group(1))
    gpt = "context" in recipe
    gpts = {{384: 10942464, 256: 3307008}} if "kv_heads" not in recipe else {{384: 9638784}}
    params = gpts[number("width")] if gpt else {{20: 269722, 18: 11181642}}[number("depth")]
    report = dict({weft}, parameters=params, steps=number("steps"), samples_per_s=10.0 if gpt else 60.0)
    report.update(tokens_per_s=10.0 * number("context") if gpt else 0.0)
    report.update(layout=dict(micro_batch=number("micro"), micro_batches_per_rank=1))
    print("step 1/" + str(number("steps")))
    open(arguments[arguments.index("--summary") + 1], "w").write(json.dumps(report))
"""


class WholeRun(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        for name in ("peers/torch_gpt.py", "data/tinyshakespeare.txt"):
            (self.path / name).parent.mkdir()
            (self.path / name).touch()
        self.fake = self.path / "fake"
        self.fake.write_text(FAKE.format(python=sys.executable, peer=PEER, weft=WEFT))
        self.fake.chmod(0o755)

    def run_bench(self, *arguments):
        return subprocess.run([sys.executable, "-B", PEERS / "run", "--shared", self.path, "--weft", self.fake, *arguments],
                              capture_output=True, text=True, timeout=60)

    def test_table_and_json(self):
        result = self.run_bench("--python", self.fake, "--runs", "2", "--only", " M)", "--json", self.path / "out.json")
        self.assertEqual((result.returncode, result.stderr.count("turn 2 of 2")), (0, 2), result.stderr)
        self.assertRegex(result.stdout, r"default .* peak MB per rank +400 \(400 to 400\) +160 \(.*\) +0.40x +<= 0.65x +met")
        self.assertRegex(result.stdout, r"small \(3 M\) +tokens/s .* 6.40x +>= 1.3x  met")
        rows = json.loads((self.path / "out.json").read_text())["comparisons"]["ddp, small (3 M)"]
        self.assertEqual([row["measure"] for row in rows][:2], ["tokens/s", "peak MB per rank"])
        self.assertEqual(rows[1]["weft"]["samples"], [160.0, 160.0])

    def test_images_per_second(self):
        result = self.run_bench("--python", self.fake, "--runs", "1", "--only", "ddp, resnet")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"resnet-20, 32 x 32 +images/s +50.0 +60.0 +1.20x +>= 1.1x  met")
        self.assertRegex(result.stdout, r"resnet-18, 64 x 64 +peak MB per rank +400 +160 +0.40x +<= 0.7x  met")
        self.assertNotIn("first step", result.stdout)

    def test_other_peers(self):
        for name, memory in (("ddp, llama", "400"), ("jax, default", "200")):  # JAX has both devices in one process
            result = self.run_bench("--python", self.fake, "--runs", "1", "--only", name)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stdout, name + rf" +peak MB per rank +{memory} +160")

    def test_errors_are_one_line(self):
        for arguments, message in ((["--weft", self.path / "none"], "none: build it"), (["--shared", "/none"], "with --shared"),
                                   (["--python", "/none"], "--python /none cannot import torch 2.11.0"),
                                   (["--json", "/none/x"], "cannot write /none/x")):
            result = self.run_bench(*arguments)
            self.assertEqual((result.returncode, result.stdout, result.stderr.count("\n")), (1, "", 1), result.stderr)
            self.assertIn(message, result.stderr)


if __name__ == "__main__":
    unittest.main()
