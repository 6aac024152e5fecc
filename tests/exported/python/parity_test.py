"""Models exported by the function in docs/exported.md train in weft as they do alone in PyTorch, with the same bits in every layout.

usage: parity_test.py IGNORED    (WEFT_BUILD: the folder with weft)
"""
import functools
import pathlib
import sys
import tempfile
import unittest

import safetensors.torch
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import nets  # noqa: E402
import runs  # noqa: E402
import weft_data  # noqa: E402
from runs import train, weft  # noqa: E402

STEPS, RATE = 3, 0.01
# Beside one rank, each where it can go wrong; tests/exported/python/models.py runs more models in all layouts.
LAYOUTS = {"cnn": [], "unet": ["pp 2"], "lstm": [], "held": ["pp 2", "ZeRO-3, recompute, offload"], "gpt": ["ZeRO-3", "pp 2 x dp 2"],
           "drop": ["ZeRO-3, recompute, offload"], "depth": ["pp 2"], "sharing": [],
           "spectral": ["pp 2"], "rotating": []}


class Exported(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.images = weft_data.Images(cls.folder / "images", 20, nets.SIZE, nets.CLASSES)
        cls.tokens = weft_data.Tokens(cls.folder / "ids", 600, nets.CONTEXT, nets.VOCABULARY)
        cls.export = staticmethod(runs.export_function())

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def exported(cls, name, model, tokens):
        """Exports a model; returns its recipe."""
        path = cls.folder / f"{name}.pt2"
        cls.export(model, nets.example(tokens), str(path))
        return runs.recipe(cls.folder, name, path, tokens, STEPS, RATE)

    @classmethod
    @functools.cache
    def file_of(cls, name):
        """The recipe of a net, whose weights before the run are those of make()."""
        return cls.exported(name, cls.make(name), cls.reads_tokens(name))

    @staticmethod
    def make(name):
        torch.manual_seed(1)
        return {**nets.NETS, **nets.RANDOM}[name][0]()

    @staticmethod
    def reads_tokens(name):
        return {**nets.NETS, **nets.RANDOM}[name][1]

    @classmethod
    @functools.cache
    def losses(cls, name, layout="one", *settings):
        return train(cls.file_of(name), layout, *settings)[0]

    def batches(self, tokens):
        return [(self.tokens if tokens else self.images).batch(step, runs.GLOBAL, runs.SEED) for step in range(STEPS)]

    def test_losses_are_those_of_pytorch(self):
        for name, (make, tokens) in nets.NETS.items():
            expected = runs.alone(self.make(name), self.batches(tokens), RATE)
            difference = runs.difference(self.losses(name), expected)
            print(f"{name}: {expected[0]:.9g} to {expected[-1]:.9g}, weft's differ by {difference:.1e}", flush=True)
            self.assertLessEqual(difference, runs.TOLERANCE, f"{name}: {self.losses(name)} {expected}")

    def test_layouts_have_the_same_bits(self):
        for name, layouts in LAYOUTS.items():
            for layout in layouts:
                self.assertEqual(self.losses(name, layout), self.losses(name), f"{name}, {layout}")

    def test_layers_split_over_ranks_give_the_same_losses(self):
        cases = [("gpt", "tp 4"), ("gpt", "tp 2 x pp 2"), ("drop", "tp 2"), ("mixed", "tp 2"), ("mixed", "tp 2 x ZeRO-3, recompute")]
        for name, layout in cases:
            split = self.losses(name, layout, *nets.SPLITS[name])
            self.assertLessEqual(runs.difference(split, self.losses(name)), runs.TOLERANCE, f"{name}, {layout}")
        narrow = [self.losses("mixed", layout, "layout.precision=bf16", *nets.SPLITS["mixed"]) for layout in ("one", "tp 2")]
        self.assertLess(runs.difference(*narrow), 5e-3)

    def test_split_layers_are_saved_whole(self):
        saves = {name: [f"save.folder={self.folder}/{name}", "save.every=1", *nets.SPLITS["mixed"]] for name in ("split", "whole")}
        train(self.file_of("mixed"), "tp 2", *saves["split"], "run.steps=1")
        train(self.file_of("mixed"), "one", *saves["whole"], "run.steps=1")
        first, split, whole = dict(self.make("mixed").named_parameters()), self.saved("split"), self.saved("whole")
        self.assertEqual(split.keys(), first.keys())
        for name, before in first.items():
            torch.testing.assert_close(split[name] - before, whole[name] - before, rtol=1e-3, atol=1e-7, msg=lambda text: f"{name}: {text}")
        for layout, *more in (["one", "model.tp_columns=", "model.tp_rows=", "model.tp_vocabulary="], ["pp 2", "model.blocks=embedding, mlp"]):
            rest = train(self.file_of("mixed"), layout, *saves["split"], "save.every=9", "save.on_end=false", *more)[0]
            self.assertLessEqual(runs.difference(rest, self.losses("mixed")[1:]), runs.TOLERANCE)

    def test_transposed_layers_that_cannot_be_split_are_refused(self):
        cases = {
            "its weight is [inputs, outputs], of which weft does not pad the classes": ["model.tp_vocabulary=*.kv"],
            "this layer takes whole rows; put it into model.tp_rows": ["model.tp_columns=mlp.both:2"],
            "it has factors; leave it whole": ["model.tp_rows=mlp.scaled"],
        }
        for text, settings in cases.items():
            said = weft("memory", self.file_of("mixed"), *(word for setting in settings for word in ("--set", setting)), status=1)
            self.assertIn(text, said)

    def test_random_operators_are_keyed_by_seed_and_sample(self):
        for name in ("drop", "depth"):
            self.assertNotEqual(self.losses(name, "one", "run.seed=2", "run.steps=1")[0], self.losses(name)[0])
        for a, b in zip(self.losses("drop", "one", "batch.micro=1", "run.reproducible_slots=8"), self.losses("drop")):
            self.assertAlmostEqual(a, b, delta=1e-5 * b)  # the masks do not depend on the micro-batch

    def test_narrow_types_keep_buffers_and_new_tensors_in_float32(self):
        fp16 = ["layout.precision=fp16", "run.reproducible_slots=0"]
        for name in ("held", "lstm"):
            for settings in (["layout.precision=bf16"], fp16):
                narrow = self.losses(name, "one", *settings)
                self.assertNotEqual(narrow, self.losses(name))
                self.assertLess(runs.difference(narrow, self.losses(name)), 5e-3, f"{name}, {settings}")
        bf16 = self.losses("held", "ZeRO-3, recompute, offload", "layout.precision=bf16")
        self.assertEqual(bf16, self.losses("held", "one", "layout.precision=bf16"))

    def test_a_file_of_narrow_weights_trains_as_one_of_float32(self):
        model, free = self.make("held").half(), ({0: torch.export.Dim.DYNAMIC},)
        file = runs.recipe(self.folder, "half", self.folder / "half.pt2", False, STEPS, RATE)
        torch.export.save(torch.export.export(model.train(), (nets.example(False).half(),), dynamic_shapes=free), str(self.folder / "half.pt2"))
        self.assertEqual(train(file, "one")[0], train(self.exported("widened", model.float(), False), "one")[0])

    def saved(self, name):
        """Weights of the last checkpoint."""
        weft("checkpoint", "export", self.folder / name, self.folder / f"{name}.safetensors")
        return safetensors.torch.load_file(self.folder / f"{name}.safetensors")

    def test_evaluations_and_running_statistics_are_those_of_pytorch(self):
        for name in ("held", "depth"):
            model = self.make(name)
            evaluation = train(self.file_of(name), "one", "run.reproducible_slots=1", f"batch.micro={runs.GLOBAL}", f"run.evaluate_every={STEPS}",
                               f"save.folder={self.folder}/saved_{name}", f"save.every={STEPS}")[1][-1]
            state = self.saved(f"saved_{name}")
            self.assertEqual(state.keys(), model.state_dict().keys())
            if name == "held":  # what "depth" draws differs in PyTorch
                runs.alone(model, self.batches(False), RATE, micro=runs.GLOBAL)
                for key, value in model.state_dict().items():
                    torch.testing.assert_close(state[key], value, rtol=1e-5, atol=1e-6, msg=lambda text: f"{key}: {text}")
            model.load_state_dict(state)
            with torch.no_grad():
                expected = runs.loss_of(model.eval(), *self.images.all(), len(self.images.labels)).item()
            self.assertLess(runs.difference([evaluation], [expected]), runs.TOLERANCE, name)

    def test_a_resumed_run_takes_the_same_steps(self):
        again = self.exported("again", self.make("depth"), False).with_suffix(".pt2")
        saves = [f"save.folder={self.folder}/resumed", "save.every=1"]
        train(self.file_of("depth"), "one", *saves, "run.steps=1")
        rest = train(self.file_of("depth"), "pp 2", *saves, f"model.path={again}", f"model.weights={again}", "model.blocks=wide, head")[0]
        self.assertEqual(rest, self.losses("depth")[1:])

    def test_other_commands_take_such_a_recipe(self):
        for command in ("show", "memory", "verify"):
            weft(command, self.file_of("gpt"), "-n", 2)
        for command in ("simulate", "plan"):
            weft(command, self.file_of("gpt"), "-n", 2, "--hardware", "h100_node")

    def test_layers_pass_on_what_was_made_before_them(self):
        for name in ("sharing", "rotating"):
            self.assertEqual(self.losses(name, "pp 2", "model.blocks=layers.*"), self.losses(name))

    def test_programs_that_do_not_train_are_refused(self):
        class Narrow(torch.nn.Module):
            def forward(self, x):
                with torch.autocast("cpu", torch.bfloat16):
                    y = x.flatten(1) * 2
                return y[:, :nets.CLASSES] + x.flatten(1)[:, :nets.CLASSES]

        class Noisy(torch.nn.Module):
            def forward(self, x):
                return (x + torch.randn_like(x)).flatten(1)[:, :nets.CLASSES]

        class Counts(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("seen", torch.zeros(()))

            def forward(self, x):
                self.seen.add_(1.0)
                return x.flatten(1)[:, :nets.CLASSES] * self.seen

        x, free = nets.example(False), ({0: torch.export.Dim.DYNAMIC},)
        cases = {
            "the batch of 'input' is fixed to 4; export it as torch.export.export(model.train()": torch.export.export(nets.Mlp(), (x,)),
            "control flow and regions": torch.export.export(Narrow(), (x,), dynamic_shapes=free),
            "draws in training alone, so evaluations would draw too": torch.export.export(Noisy(), (x,), dynamic_shapes=free),
            "changes 'b_seen', which the model holds": torch.export.export(Counts(), (x,), dynamic_shapes=free),
            "it takes Double, but model.inputs": torch.export.export(nets.Mlp().double(), (x.double(),), dynamic_shapes=free),
            "so it was decomposed or made functional": torch.export.export(nets.Cnn().train(), (x,), dynamic_shapes=free).run_decompositions(),
        }
        for text, program in cases.items():
            torch.export.save(program, str(self.folder / "refused.pt2"))
            said = weft("memory", runs.recipe(self.folder, "refused", self.folder / "refused.pt2", False, STEPS, RATE), status=1)
            self.assertIn(text, said)

    def test_tied_weights_are_saved_once(self):
        train(self.file_of("gpt"), "one", f"save.folder={self.folder}/saved", f"save.every={STEPS}")
        saved = self.saved("saved")
        self.assertEqual(saved.keys(), dict(self.make("gpt").named_parameters()).keys())
        torch.save(saved, self.folder / "weights.pt")
        self.assertNotEqual(self.losses("gpt", "one", f"model.weights={self.folder}/weights.pt"), self.losses("gpt"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
