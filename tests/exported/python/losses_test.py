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
        with torch.no_grad():
            runs.export_function("export_loss")(loss, self.make()(data.inputs[:4]), data.targets[:4], str(path))
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

    def refused(self, *settings, targets=FIELDS, command="memory"):
        return runs.weft(command, self.recipe(targets, "refused"), *(word for setting in settings for word in ("--set", setting)), status=1)

    def test_losses_that_do_not_fit_are_refused(self):
        class Scaled(losses.Misfit):
            def __init__(self):
                super().__init__()
                self.scale = torch.nn.Parameter(torch.ones(()))

            def forward(self, outputs, target):
                return super().forward(outputs, target) * self.scale

        cases = {
            "it has the parameter 'scale', which nothing would train": Scaled(),
            "it draws random numbers, which a loss may not": lambda y, t: (y - t + torch.randn_like(y)).square(),
            "it draws random numbers": lambda y, t: F.dropout(y - t).square(),
            "it depends on training or evaluation": lambda y, t: F.batch_norm(y, None, None, training=True).sub(t).square(),
            "it must return one tensor": lambda y, t: (y, t, y),
            "it must return one tensor: a float32 loss per sample or element, or their mean": lambda y, t: (y - t).square().mean((0, 2)),
            "its loss does not depend on the model's outputs": lambda y, t: (y.detach() - t).square(),
            "an output is no tensor": lambda y, t: ((y - t).square().sum(), t.numel()),
        }
        for text, loss in cases.items():
            with self.subTest(text):
                command = "train" if "gradients" in text or "depend on the model" in text else "memory"
                self.assertIn(text, self.refused(self.export(losses.module(loss), FIELDS), command=command))
        labels = self.export(losses.Classes(), LABELS)
        fields = self.export(losses.Misfit(), FIELDS, "fields")
        flat = self.folder / "flat.pt2"
        torch.export.save(torch.export.export(losses.Misfit(), (torch.randn(4, 2, 3), torch.randn(4, 2, 3))), str(flat))
        images, one = self.folder / "images.pt2", self.folder / "one.pt2"
        free = ({0: torch.export.Dim.DYNAMIC},)
        torch.export.save(torch.export.export(nets.Mlp(), (nets.example(False),), dynamic_shapes=free), str(images))
        torch.export.save(torch.export.export(nets.Fields(), (torch.randn(4, 3, nets.POINTS),), dynamic_shapes=free), str(one))
        settings = {
            "the first dimension of input 0 is not of the samples; export it as export_loss() of docs/exported.md does": [f"model.loss={flat}"],
            "it takes 1 inputs; a loss takes the model's output, then the target": [f"model.loss={one}"],
            "targets.npy: a NumPy array of type '<f4', but the model needs int64": [labels, "run.steps=1"],
            "model.class_weights: 'x' is no number of at least 0": ["model.class_weights=1, x"],
            "loss: 2 class weights, logits of 12": ["model.class_weights=1, 2"],
            "model.class_weights is read only with images or arrays, and the cross entropy": [fields, LINE],
            'model.loss = "huber"; it must be "cross_entropy", "mean_squares" or a file': ["model.loss=huber"],
            "input 0 is Float [samples, 2, 12], but the model's output is Float [samples, 5]": [
                f"model.path={images}", "model.inputs=images", "model.classes=5", "model.image_size=16", "data.name=images", "data.evaluation_path=", fields],
            'its loss takes targets Float [samples, 5], but model.inputs = "images" comes with Long [samples]; set model.inputs': [
                f"model.path={images}", "model.inputs=images", "model.classes=5", "model.image_size=16", "data.name=images",
                "data.evaluation_path=", "model.loss=mean_squares"],
        }
        for text, sets in settings.items():
            with self.subTest(text):
                self.assertIn(text, self.refused(*sets, command="train" if "npy" in text else "memory"))

    def test_a_loss_may_take_several_outputs(self):
        class Both(nets.Fields):
            def forward(self, x):
                y = super().forward(x)
                return y, y.mean(-1), y.std(-1)

        class Loss(torch.nn.Module):
            def forward(self, y, mean, target):
                return (y - target).square().mean((1, 2)) + mean.square().sum(-1)

        torch.manual_seed(1)
        model, data = Both(), self.data[FIELDS]
        runs.export_function()(model, data.inputs[:4], str(self.folder / "both.pt2"))
        with torch.no_grad():
            outputs = model(data.inputs[:4])
            runs.export_function("export_loss")(Loss(), outputs[:2], data.targets[:4], str(self.folder / "loss.pt2"))
            inputs, target = data.batch(0, runs.GLOBAL, runs.SEED)
            expected = Loss()(*model(inputs)[:2], target).mean().item()
        settings = [f"model.path={self.folder}/both.pt2", f"model.loss={self.folder}/loss.pt2", "run.steps=1", "run.evaluate_every=0"]
        for layout in ("one", "pp 2"):
            found = runs.train(self.recipe(FIELDS), layout, *settings)[0]
            self.assertLessEqual(runs.difference(found, [expected]), runs.TOLERANCE)

    def test_counts_are_from_0(self):
        count = lambda number: losses.module(lambda y, t: ((y - t).square().sum(), torch.full((), number, dtype=torch.int64)))  # noqa: E731
        for number in (-1, 2**62):
            self.assertIn(f"loss: its count of targets is {number}; it must be from 0 to 2^40",
                          self.refused(self.export(count(number), FIELDS), command="train"))

    def test_branches_on_the_number_of_samples_are_refused_on_the_other_side(self):
        class Branching(nets.Fields):
            def forward(self, x):
                return super().forward(x) * (1.0 if x.shape[0] > 4 else 2.0)

        runs.export_function()(Branching(), torch.randn(3, 3, nets.POINTS), str(self.folder / "branching.pt2"))
        settings = [f"model.path={self.folder}/branching.pt2", "model.loss=mean_squares", "run.evaluate_every=0"]
        runs.train(self.recipe(FIELDS), "one", *settings)
        self.assertIn("with 8 samples it is not the exported forward, which is so only where L['x'].size()[0] <= 4; change batch.micro",
                      self.refused(*settings, "batch.micro=8", "run.reproducible_slots=0", command="train"))

    def test_a_model_may_take_several_inputs(self):
        torch.manual_seed(3)
        inputs = {"kind": torch.randint(nets.CLASSES, (SAMPLES,)), "field": torch.randn(SAMPLES, 3, nets.POINTS),
                  "mask": torch.rand(SAMPLES, nets.POINTS)}
        data = weft_data.Arrays(self.folder / "guided", inputs, torch.randn(SAMPLES, 2, nets.POINTS))
        for name, example in {"by name": {key: values[:4] for key, values in inputs.items()},
                              "by place": tuple(inputs[key][:4] for key in ("field", "kind", "mask"))}.items():
            torch.manual_seed(1)
            model = nets.Guided()
            runs.export_function()(model, example, str(self.folder / f"{name}.pt2"))
            optimizer, expected = torch.optim.SGD(model.parameters(), lr=RATE), []
            for step in range(STEPS):
                batch, target = data.batch(step, runs.GLOBAL, runs.SEED)
                optimizer.zero_grad()
                loss = F.mse_loss(model(**batch), target)
                loss.backward()
                optimizer.step()
                expected.append(loss.item())
            settings = [f"model.path={self.folder}/{name}.pt2", "model.loss=mean_squares", "run.evaluate_every=1"]
            found = runs.train(self.recipe("guided"), "one", *settings)
            self.assertLessEqual(runs.difference(found[0], expected), runs.TOLERANCE, name)
            with torch.no_grad():
                self.assertLessEqual(runs.difference(found[1][-1:], [F.mse_loss(model(**inputs), data.targets).item()]), runs.TOLERANCE)
            for layout in (ALL if name == "by name" else ["pp 2"]):
                self.assertEqual(runs.train(self.recipe("guided"), layout, *settings), found, layout)
        self.assertIn("it takes 3 inputs, but model.inputs = \"images\" gives one; set model.inputs = \"arrays\"",
                      self.refused(settings[0], "model.inputs=images", "model.classes=5", "data.name=images", "data.evaluation_path="))
        self.assertIn("field.npy: cannot open it: No such file or directory; data.path is a folder with field.npy, kind.npy, mask.npy and targets.npy",
                      self.refused(*settings, command="train"))
        free = [{0: torch.export.Dim.DYNAMIC}] * 2
        apart = torch.export.export(losses.module(lambda x, y: (x + 1, y + 1)), (torch.zeros(4, 3), torch.zeros(5, 3)), dynamic_shapes=tuple(free))
        fixed = torch.export.export(losses.module(lambda x, y: x + y[0]), (torch.zeros(4, 3), torch.zeros(5, 3)), dynamic_shapes=(free[0], None))
        for text, program in {"may differ in their number of samples; export it as": apart, "is fixed to 5; export it as": fixed}.items():
            torch.export.save(program, str(self.folder / "apart.pt2"))
            self.assertIn(text, self.refused(f"model.path={self.folder}/apart.pt2", "model.loss=mean_squares"))

    def test_other_commands_take_such_a_recipe(self):
        loss = self.export(losses.Masked(True), FIELDS)
        for command, *more in (["show"], ["memory"], ["verify"], ["simulate", "--hardware", "h100_node"], ["plan", "--hardware", "h100_node"]):
            runs.weft(command, self.recipe(FIELDS), "-n", 2, "--set", loss, *more)

    def test_checkpoints_know_their_loss(self):
        saves = [f"save.folder={self.folder}/saved", "save.every=1"]
        whole = runs.train(self.recipe(FIELDS), "one", self.export(losses.Misfit(), FIELDS))[0]
        runs.train(self.recipe(FIELDS), "one", *saves, "run.steps=1", "run.evaluate_every=0", self.export(losses.Misfit(), FIELDS))
        for loss in (self.export(losses.Masked(False), FIELDS, "masked"), "model.loss=mean_squares"):
            self.assertRegex(self.refused(*saves, loss, command="train"), r"model.loss is \w+ there, .*\(--resume-anyway takes what fits\)")
        again = self.export(losses.Misfit(), FIELDS, "again")
        self.assertEqual(runs.train(self.recipe(FIELDS), "pp 2", *saves, again)[0], whole[1:])
        runs.train(self.recipe(FIELDS), "one", f"model.weights={self.folder}/saved", "model.loss=mean_squares")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
