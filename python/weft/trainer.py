"""weft.Trainer: trains modules of torch.nn on all ranks, each of which makes the same calls in the same order."""
import atexit
import json
import os
import tempfile
import weakref

import torch
from torch.utils.data import default_collate

from weft import _weft
from weft.blocks import blocks_of, describe, loss_function
from weft.errors import InputError
from weft.toml import toml_of

Step = _weft.Step
_trainers = weakref.WeakSet()


class Evaluation:
    """Loss and accuracy over a data set."""

    def __init__(self, loss, targets, hits):
        self.loss = loss  #: mean over the targets
        self.targets = targets  #: number that counted, over all ranks
        self.hits = hits  #: of those, how many were the most likely class; None for a loss other than "cross_entropy"

    @property
    def accuracy(self):
        return None if self.hits is None else self.hits / self.targets

    def __repr__(self):
        return f"Evaluation(loss={self.loss:.6g}, targets={self.targets}, hits={self.hits})"


class Trainer:
    """A model, an optimizer and a layout on the ranks of this job (`weft run`, torchrun, SLURM, weft.spawn; otherwise one rank).

    model: a list of modules, each called with the outputs of the one before; an nn.Sequential; or any module, as one block.
    loss: "cross_entropy", "mean_squares", or a function (outputs, target) that returns the mean over the samples, or (sum, count).
    batch, optimizer, layout, run: keys of those sections of a recipe (docs/recipes.md). `batch` may be the global batch alone.
    recipe: a dict of sections, such as weft.load_recipe() returns; the arguments above override its keys.
    log: called with notes, a line each, on rank 0; print by default, None for silence.

    The trainer owns the modules' parameters from here on: between steps a module may hold a part of them, or none. state_dict() has
    them whole. Every rank must have the same modules; their values are those of rank 0.
    """

    def __init__(self, model, loss="cross_entropy", *, batch=None, optimizer=None, layout=None, run=None, recipe=None, log=print):
        sections = {name: dict(values) for name, values in (recipe or {}).items() if isinstance(values, dict)}
        if isinstance(batch, int):
            batch = {"global": batch}
        for name, values in {"batch": batch, "optimizer": optimizer, "layout": layout, "run": run}.items():
            if values is not None and not isinstance(values, dict):
                raise InputError(f"{name} is a {type(values).__name__}; it must be a dict of the recipe's keys of [{name}]")
            sections.setdefault(name, {}).update(values or {})
        sections["run"].setdefault("device", "cpu")  # what the wheel is for; torch may say that it sees a GPU where there is none
        self._has_length = any(key in sections["run"] for key in ("steps", "samples", "tokens"))
        self._blocks = blocks_of(model)
        described, self._aliases = describe(self._blocks)
        text = toml_of({name: sections[name] for name in ("batch", "optimizer", "layout", "run")})
        self._trainer = _weft.Trainer(text, described, loss_function(loss), log)
        self._counts_hits = loss in (None, "cross_entropy") if loss is None or isinstance(loss, str) else False
        self._data = self._running = None
        _trainers.add(self)

    def _call(self, method, *arguments):
        """A method of the trainer in C++, unless one runs: on another thread, or that calls this one from a block."""
        if self._running:
            raise InputError(f"{method}() while {self._running}() runs; a trainer is called by one thread, and not from its own modules")
        self._running = method
        try:
            return getattr(self._trainer, method)(*arguments)
        finally:
            self._running = None

    # --- training ---

    def step(self, inputs, target):
        """One step on this rank's share of the global batch (`share`). `inputs` is a tensor, or a tuple of them. Returns a Step."""
        self._data = None
        return self._call("step", _tensors(inputs), target)

    def train(self, data, steps=None, *, collate=None, shuffle=True, workers=0):
        """Trains, and yields a Step after each one.

        data: a sequence of samples (inputs, target): weft reads them in an order that depends on run.seed alone, on any number of
        ranks, and goes on where a loaded checkpoint was saved. Or an iterable of batches (inputs, target), such as a DataLoader: each
        is this rank's share of a step.
        steps: how many; by default up to run.steps, or, of an iterable, all its batches.
        collate: makes a batch of a list of samples; torch's default_collate by default. workers: threads that read ahead, for data
        that waits for disks; with them neither `data` nor `collate` may draw from torch's default generator, which dropout uses meanwhile.
        """
        if not _is_sequence(data):
            batches = iter(data)
            while steps is None or steps > 0:
                try:
                    inputs, target = next(batches)
                except StopIteration:
                    break
                steps = None if steps is None else steps - 1
                yield self.step(inputs, target)
            return
        if steps is None:
            if not self._has_length:
                raise InputError("train(): how many steps? give steps, or run = {'steps': ...}")
            steps = self._trainer.steps() - self.steps_done
        for _ in range(steps):
            self._read(data, (collate, shuffle, workers))  # anew after a load, a step on other data
            yield self._call("next_step")

    def _read(self, data, how):
        if self._data is not None and self._data[0] is data and self._data[1] == how:
            return
        collate, shuffle, workers = how
        self._data = None
        self._call("read", _dataset(data, collate), shuffle, workers)
        self._data = (data, how)  # whose next samples are those of the next step

    def evaluate(self, data, *, collate=None):
        """The loss over a sequence of samples, of which each rank reads its share. With optimizer.ema, of the averaged weights."""
        if not _is_sequence(data):
            raise InputError(f"evaluate(): a {type(data).__name__} is no sequence of samples; of a DataLoader, pass its dataset")
        loss, targets, hits = self._call("evaluate", _dataset(data, collate))
        return Evaluation(loss, targets, hits if self._counts_hits else None)

    def predict(self, inputs, *, gathered=False):
        """The model's outputs, on the CPU, for this rank's `inputs`, of any number; `gathered`: for those of all ranks."""
        outputs = self._call("predict", _tensors(inputs), gathered)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    @property
    def share(self):
        """This rank's samples of the next step, a range of the global batch."""
        first, count = self._trainer.share()
        return range(first, first + count)

    # --- state ---

    def save(self, path, *, replace=False, in_background=False):
        """Saves weights, optimizer, clock and kept objects as a checkpoint: a new folder, or a URL. It loads at any size and layout."""
        self._call("save", os.fspath(path), replace, in_background)

    def finish_save(self):
        """Waits for a save in the background; raises its error."""
        self._trainer.finish_save()

    def load(self, path, *, strict=True):
        """Loads a checkpoint, also one of `weft train` or of other ranks and layouts. Returns the steps done."""
        self._data = None
        return self._call("load", os.fspath(path), strict)

    def load_weights(self, path, *, names=None, skip=()):
        """Starts from the weights in a file or a checkpoint; `names`: {name in the file: name in the model}, '*' for any text."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(names or {}, file)
            file.flush()
            self._trainer.load_weights(os.fspath(path), file.name if names else "", list(skip))

    def keep(self, name, value):
        """Adds an object with state_dict() and load_state_dict(), of what JSON can hold, to checkpoints. Before load(), on all ranks."""
        self._trainer.keep(name, lambda: json.dumps(value.state_dict()), lambda text: value.load_state_dict(json.loads(text)))

    def state_dict(self, *, average=False):
        """All parameters and buffers, whole, on the CPU, by the names that the model gives them; `average`: with optimizer.ema."""
        weights = dict(self._trainer.weights(average))
        weights.update({name: weights[owner] for name, owner in self._aliases.items()})
        return weights

    def zero_gradients(self):
        """{parameter: share of its gradient that was exactly zero in the last step}, if half or more: unused, detached or dead ones."""
        return dict(self._trainer.zero_gradients())

    # --- figures ---

    @property
    def rank(self):
        """This process's rank."""
        return self._trainer.rank()

    @property
    def world_size(self):
        """Number of ranks."""
        return self._trainer.size()

    @property
    def steps_done(self):
        """Steps of the run, loaded ones too."""
        return self._trainer.steps_done()

    @property
    def samples_done(self):
        """Samples of the run, over all its steps."""
        return self._trainer.samples_done()

    @property
    def global_batch(self):
        """Samples of the next step, over all ranks."""
        return self._trainer.global_batch()

    @property
    def learning_rate(self):
        """Of the next step."""
        return self._trainer.learning_rate()


@atexit.register
def _stop_reading():
    """Before Python ends: its end would stop threads that are in a data set with an exception that C++ cannot pass on."""
    for trainer in list(_trainers):
        trainer._trainer.stop_reading()


def _tensors(inputs):
    tensors = list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]
    wrong = next((value for value in tensors if not isinstance(value, torch.Tensor)), None)
    if wrong is not None or not tensors:
        raise InputError(f"inputs must be a tensor, or a tuple of tensors, not {'a ' + type(wrong).__name__ if tensors else 'empty'}")
    return tensors


def _is_sequence(data):
    return hasattr(data, "__getitem__") and hasattr(data, "__len__")


def _dataset(data, collate):
    collate = collate or default_collate

    def fetch(indices, _epoch):
        batch = collate([data[index] for index in indices])
        if not isinstance(batch, (tuple, list)) or len(batch) != 2:
            raise InputError(f"a batch of the data set is a {type(batch).__name__}, not (inputs, target); make one of it with `collate`")
        inputs, target = batch
        return tuple(_tensors(inputs)), target

    return _weft.Dataset(len(data), fetch)
