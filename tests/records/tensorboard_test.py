#!/usr/bin/env -S python3 -B
"""TensorBoard itself reads what a run writes for it: scalars, histograms, the recipe's text, and a resumed run without its repeated steps."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from tensorboard.backend.event_processing import event_accumulator, event_file_loader
from tensorboard.util import tensor_util

RECIPE = """
model = { name = "gpt", layers = 1, heads = 1, width = 8, context = 8 }
data = { name = "text", path = "%s" }
batch = { global = 8 }
optimizer = { clip = 0.1 }
save = { folder = "%s", every = 3 }
run = { steps = %d, evaluate_every = 4, threads = 1, tensorboard = true, histograms_every = 2 }
"""


class TensorBoard(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / "text").write_text("".join(f"line {i} of a text\n" for i in range(200)))

    def train(self, steps):
        (self.folder / "r.toml").write_text(RECIPE % (self.folder / "text", self.folder / "run", steps))
        done = subprocess.run([WEFT, "train", self.folder / "r.toml"], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)

    def read(self):
        accumulator = event_accumulator.EventAccumulator(str(self.folder / "run" / "tensorboard"),
                                                         size_guidance={"scalars": 0, "tensors": 0, "histograms": 0})
        return accumulator.Reload()

    def records(self):
        lines = [json.loads(line) for line in (self.folder / "run" / "metrics.jsonl").read_text().splitlines()]
        return [line for line in lines if "evaluation" not in line], [line for line in lines if "evaluation" in line]

    def test_reads_every_value_of_a_resumed_run(self):
        self.train(8)
        shutil.rmtree(self.folder / "run" / "step-00000008")  # as if killed before it: steps 7 and 8 are done again
        self.train(12)
        board = self.read()
        steps, evaluations = self.records()
        names = {name for line in steps for name in line if name not in ("step", "time")}
        sets = {f"{line['evaluation']}/{name}" for line in evaluations for name in line if name not in ("evaluation", "step", "time")}
        self.assertEqual(set(board.Tags()["scalars"]), names | sets)
        for name in sorted(names):
            read = {event.step: event.value for event in board.Scalars(name)}
            self.assertEqual(sorted(read), [line["step"] for line in steps if name in line], name)
            for line in steps:
                if name in line:
                    self.assertAlmostEqual(read[line["step"]], line[name], delta=1e-6 * abs(line[name]), msg=name)
        self.assertEqual([event.step for event in board.Scalars("loss")], list(range(1, 13)))
        texts = [event.tensor_proto.string_val[0].decode() for event in board.Tensors("start/text_summary")]
        self.assertIn("| recipe.batch.global | 8 |", texts[0])
        self.check_histograms(board, {line["step"]: line["grad_norm"] for line in steps})

    def check_histograms(self, board, norms):
        tags = board.Tags()["histograms"]
        self.assertEqual(sorted({tag.split("/")[0] for tag in tags}), ["gradients", "weights"])
        squares = dict.fromkeys(range(2, 13, 2), 0.0)
        for tag in tags:
            events = board.Histograms(tag)
            self.assertEqual([event.step for event in events], list(squares), tag)
            for event in events:
                value = event.histogram_value
                self.assertEqual(sum(value.bucket), value.num, tag)
                self.assertEqual(value.bucket[0], 0, tag)
                self.assertEqual(value.bucket_limit, sorted(value.bucket_limit), tag)
                self.assertTrue(value.bucket_limit[0] <= value.min <= value.max <= value.bucket_limit[-1], tag)
                squares[event.step] += value.sum_squares if tag.startswith("gradients/") else 0.0
        for step, total in squares.items():
            self.assertAlmostEqual(total ** 0.5, norms[step], delta=1e-5 * norms[step])
        self.assertEqual(self.drawn(), len(tags), "the dashboard reads others")

    def drawn(self):
        """How many histograms of the last step the dashboard draws, as rows of left, right and count."""
        drawn = 0
        for path in sorted((self.folder / "run" / "tensorboard").iterdir())[-1:]:
            for event in event_file_loader.EventFileLoader(str(path)).Load():
                for value in event.summary.value:
                    if event.step == 12 and value.metadata.plugin_data.plugin_name == "histograms":
                        left, right, count = tensor_util.make_ndarray(value.tensor).T
                        self.assertTrue((left <= right).all() and count.sum() > 0, value.tag)
                        drawn += 1
        return drawn


if __name__ == "__main__":
    WEFT = sys.argv.pop(1)
    unittest.main()
