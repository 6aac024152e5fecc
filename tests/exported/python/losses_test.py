"""Models learn by each loss as in PyTorch, with the same bits in every layout, and evaluate by it.

usage: losses_test.py IGNORED    (WEFT_BUILD: the folder with weft)
"""
import functools
import pathlib
import sys
import tempfile
import unittest

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import losses  # noqa: E402
import nets  # noqa: E402
import runs  # noqa: E402
import weft_data  # noqa: E402

STEPS, RATE, SAMPLES = 3, 0.1, 40
WEIGHTS = [1.0, 0.25, 3.0, 0.0, 2.0, 1.0, 1.5, 0.1, 1.0, 1.0, 4.0, 0.7]
LINE = "model.class_weights=" + ", ".join(map(str, WEIGHTS))
WEIGHT = torch.tensor(WEIGHTS)


def classes(outputs, target, **options):
    return F.cross_entropy(outputs.flatten(0, -2), target.flatten(), **options)


# name: targets, PyTorch's mean, the evaluation's if it is another, the loss to export or settings of the recipe, the layouts beside one rank
FIELDS, LABELS = "fields", "labels"
ALL = list(runs.LAYOUTS)[1:]
LOSSES = {
    "mean squares": (FIELDS, F.mse_loss, None, ["model.loss=mean_squares"], ALL),
    "classes": (LABELS, classes, None, [], ["pp 2"]),
    "weighted": (LABELS, functools.partial(classes, weight=WEIGHT), None, [LINE], ALL),
    "weighted and smoothed": (LABELS, functools.partial(classes, weight=WEIGHT, label_smoothing=0.1), functools.partial(classes, weight=WEIGHT),
                              [LINE, "model.label_smoothing=0.1"], ["ZeRO-3"]),
    "huber": (FIELDS, None, None, losses.Huber(nets.POINTS), ["pp 2"]),
    "misfit": (FIELDS, None, None, losses.Misfit(), ["dp 2"]),
    "mean": (FIELDS, None, None, losses.Mean(), ["ZeRO-3"]),
    "masked": (FIELDS, None, None, losses.Masked(False), ["pp 2 x dp 2"]),
    "by weight": (FIELDS, None, None, losses.Masked(True), ["pp 2 x dp 2", "ZeRO-3, recompute, offload"]),
    "focal": (LABELS, None, None, losses.Classes(), ["dp 2"]),
}


class Losses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        torch.manual_seed(2)
        inputs, fields = torch.randn(SAMPLES, 3, nets.POINTS), torch.randn(SAMPLES, 2, nets.POINTS)
        labels = torch.randint(nets.POINTS, (SAMPLES, 2))
        labels[3] = -100
        cls.data = {FIELDS: weft_data.Arrays(cls.folder / FIELDS, inputs, fields), LABELS: weft_data.Arrays(cls.folder / LABELS, inputs, labels)}
        runs.export_function()(cls.make(), inputs[:4], str(cls.folder / "net.pt2"))

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @staticmethod
    def make():
        torch.manual_seed(1)
        return nets.Fields()

    def recipe(self, targets, name="r"):
        file = self.folder / f"{name}.toml"
        file.write_text(f'model = {{ name = "exported", path = "{self.folder}/net.pt2", inputs = "arrays" }}\n'
                        f'data = {{ name = "arrays", path = "{self.folder}/{targets}", evaluation_path = "{self.folder}/{targets}" }}\n'
                        f"batch = {{ global = {runs.GLOBAL}, micro = {runs.MICRO} }}\n"
                        f'optimizer = {{ name = "sgd", lr = {RATE}, momentum = 0.0, weight_decay = 0.0 }}\n'
                        f"run = {{ steps = {STEPS}, seed = {runs.SEED}, reproducible_slots = 4, log_every = 1, evaluate_every = {STEPS} }}\n")
        return file

    def export(self, loss, targets, name="loss"):
        """Writes a loss's program; returns the setting that names it."""
        path, data = self.folder / f"{name}.pt2", self.data[targets]
        batch = torch.export.Dim("batch")
        outputs = self.make()(data.inputs[:4]).detach()
        torch.export.save(torch.export.export(loss, (outputs, data.targets[:4]), dynamic_shapes=({0: batch}, {0: batch})), str(path))
        return f"model.loss={path}"

    def alone(self, targets, mean, evaluated):
        """Losses of PyTorch's steps, and the evaluation's."""
        model, data = self.make(), self.data[targets]
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        steps = []
        for step in range(STEPS):
            inputs, target = data.batch(step, runs.GLOBAL, runs.SEED)
            optimizer.zero_grad()
            loss = mean(model(inputs), target)
            loss.backward()
            optimizer.step()
            steps.append(loss.item())
        with torch.no_grad():
            return steps, [evaluated(model(data.inputs), data.targets).item()]

    def test_losses_are_those_of_pytorch_in_every_layout(self):
        for name, (targets, mean, evaluated, loss, layouts) in LOSSES.items():
            with self.subTest(name):
                settings = loss if isinstance(loss, list) else [self.export(loss, targets)]
                mean = mean or functools.partial(losses.mean_of, loss)
                expected = self.alone(targets, mean, evaluated or mean)
                found = runs.train(self.recipe(targets), "one", *settings)
                difference = max(map(runs.difference, found, expected))
                print(f"{name}: {expected[0][0]:.9g} to {expected[0][-1]:.9g}, weft's differ by {difference:.1e}", flush=True)
                self.assertLessEqual(difference, runs.TOLERANCE, f"{found} {expected}")
                for layout in layouts:
                    self.assertEqual(runs.train(self.recipe(targets), layout, *settings), found, layout)
                narrow = runs.train(self.recipe(targets), "one", *settings, "layout.precision=bf16")
                self.assertNotEqual(narrow, found)
                self.assertLess(runs.difference(narrow[0], found[0]), 2e-2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
