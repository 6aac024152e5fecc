"""weft.Trainer: trains modules of torch.nn on all ranks, each of which makes the same calls in the same order."""
from __future__ import annotations

import atexit
import json
import os
import re
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from weft import _weft
from weft.arguments import flag, pair_of, path_of, target_of, tensors_of, whole_number
from weft.blocks import Described, blocks_of, loss_function
from weft.data_set import collate_of, data_text, dataset_of, is_sequence, size_of
from weft.errors import InputError, is_text, kind, shown
from weft.ranks import met, refuse_fork
from weft.toml import toml_of

Step = _weft.Step
Inputs = torch.Tensor | Sequence[torch.Tensor]
Keys = dict[str, Any]
Path = str | bytes | os.PathLike[str]
Collate = Callable[[list[Any]], Any]
_trainers: weakref.WeakSet[Trainer] = weakref.WeakSet()
_LOOP = "the loop over train() does that"
UNREAD = {
    "layout.profile": "costs of Python's modules are not known", "layout.loss_chunk": "it is for gpt and llama of a recipe",
    "run.evaluate_every": _LOOP, "run.target": _LOOP, "run.stop_on": _LOOP, "run.resume": "call load()",
    "run.log_every": _LOOP, "run.folder": "records are kept by the command", "run.tensorboard": "records are kept by the command",
    "run.csv": "records are kept by the command", "run.histograms_every": "records are kept by the command",
    "run.hardware": "costs of Python's modules are not known", "run.noise_scale": "a Step does not have it",
    "run.restarts": "whoever starts the ranks does that: weft run --help", "run.ports": "set WEFT_PORTS",
}  #: keys without effect, and what to do


class Evaluation:
    """Loss and accuracy over a data set."""

    def __init__(self, loss: float, targets: int, hits: int | None) -> None:
        self.loss = loss  #: mean over the targets
        self.targets = targets  #: number that counted, over all ranks
        self.hits = hits  #: of those, how many were the most likely class; None for a loss other than "cross_entropy"

    @property
    def accuracy(self) -> float | None:
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

    def __init__(self, model: torch.nn.Module | Sequence[torch.nn.Module], loss: str | Callable[[Any, torch.Tensor], Any] | None = "cross_entropy", *,
                 batch: int | Keys | None = None, optimizer: Keys | None = None, layout: Keys | None = None, run: Keys | None = None,
                 recipe: Keys | None = None, log: Callable[[str], object] | None = print) -> None:
        if isinstance(batch, int) and not isinstance(batch, bool):
            batch = {"global": batch}
        sections, notes = _sections({"batch": batch, "optimizer": optimizer, "layout": layout, "run": run}, recipe)
        if log is not None and not callable(log):
            raise InputError(f"log is {kind(log)}; it must be a function of a line, or None")
        refuse_fork()
        self._model = model
        self._children = dict(model._modules) if isinstance(model, (torch.nn.Sequential, torch.nn.ModuleList)) else None
        self._has_length = any(key in sections["run"] for key in ("steps", "samples"))
        self._blocks = blocks_of(model)
        described = Described(self._blocks)
        self._aliases, self._unsaved = described.aliases, described.unsaved
        function = loss_function(loss)
        tell = log and (lambda line: log(line))
        self._functions = [*described.functions, function, tell]  # C++ has them only as long as they are here
        try:
            self._trainer = described.make(lambda blocks: _weft.Trainer(toml_of(sections), blocks, function, tell))
        except InputError as error:  # without the place in a text that the caller did not write
            raise InputError(re.sub(r"^recipe:\d+:\d+: ", "", str(error))) from None
        self._counts_hits, self._process = function is None, os.getpid()
        met(self.world_size)
        self._data, self._calls, self._ended, self._none = None, {}, False, []
        _trainers.add(self)
        if notes and log and self.rank == 0:
            log(notes)

    def _call(self, method, *arguments):
        """A method of the trainer in C++, unless one runs."""
        return self._alone(method, getattr(self._trainer, method), *arguments)

    def _alone(self, name, function, *arguments):
        """What function() returns, unless a call runs: on another thread, or that calls this one from a block."""
        if os.getpid() != self._process:
            raise InputError(f"{name}(): this process was forked after the trainer was made, and is no rank; use the trainer where it was made")
        mine = [name]
        try:
            running = self._calls.setdefault("runs", mine)  # not a Lock: Ctrl-C after its acquire() would leave it locked
            if running is not mine:
                raise InputError(f"{name}() while {running[0]}() runs; a trainer is called by one thread, and not from its own modules")
            if self._ended and threading.current_thread() is not threading.main_thread():
                raise InputError(f"{name}() while Python ends")
            return function(*arguments)
        finally:
            if self._calls.get("runs") is mine:
                del self._calls["runs"]

    def __reduce__(self):
        raise InputError("a Trainer can be neither pickled nor copied; save() it, and load() the checkpoint into another Trainer")

    # --- training ---

    def step(self, inputs: Inputs, target: torch.Tensor) -> Step:
        """One step on this rank's share of the global batch (`share`). `inputs` is a tensor, or a tuple of them. Returns a Step."""
        return self._alone("step", self._step, tensors_of(inputs), target_of(target))

    def _refuse_others(self):
        """Refuses a sequence with other modules than the blocks that were made of them."""
        if self._children is None or self._model._modules == self._children:
            return
        now = self._model._modules
        name = next(name for name in {**now, **self._children} if now.get(name) is not self._children.get(name))
        raise InputError(f"module '{name}' of the {type(self._model).__name__} was set or removed after the trainer was made, which trains those of then; "
                         "put it back, or make a new trainer of new modules")

    def _step(self, inputs, target):
        self._refuse_others()
        self._stop_reading()
        done = self._trainer.step(inputs, target)
        self._note(inputs)
        return done

    def _note(self, inputs):
        """Keeps what inputs without samples look like, of which the caller may not know the shape."""
        if all(value.dim() > 0 and len(value) > 0 for value in inputs):
            self._none = [value.new_empty((0, *value.shape[1:])) for value in inputs]

    def train(self, data: Any, steps: int | None = None, *, collate: Collate | None = None, shuffle: bool = True, workers: int = 0) -> Iterator[Step]:
        """Trains, and yields a Step after each one.

        data: a sequence of samples (inputs, target): weft reads them in an order that depends on run.seed alone, on any number of
        ranks, and goes on where a loaded checkpoint was saved. Or an iterable of batches (inputs, target), such as a DataLoader: each
        is this rank's share of a step.
        steps: how many; by default up to run.steps, or, of an iterable, all its batches.
        collate: makes a batch of a list of samples; torch's default_collate by default. workers: threads that read ahead, for data
        that waits for disks; with them neither `data` nor `collate` may draw from torch's default generator, which dropout uses meanwhile.
        """
        if steps is not None:
            steps = whole_number(steps, "steps", 0)
        if not is_sequence(data):
            given = next((name for name, value, default in (("collate", collate, None), ("shuffle", shuffle, True), ("workers", workers, 0))
                          if value != default), None)
            if given or not hasattr(data, "__iter__"):
                raise InputError(f"train(): {kind(data)} is no sequence of samples" + (
                    f", which {given} is for" if given else ", nor an iterable of batches"))
            return self._train_on_batches(data, steps)
        if steps is None and not self._has_length:
            raise InputError("train(): how many steps? give steps, or run = {'steps': ...}")
        return self._train_on_samples(data, steps, (collate_of(collate), flag(shuffle, "shuffle"), whole_number(workers, "workers", 0)))

    def _agree(self, call, size, shuffle=False):
        """Refuses data of another kind, length or order on another rank, of which the ranks would read other shares."""
        if self.world_size == 1:
            return
        found = self._alone(call, self._trainer.gather, [size, shuffle], f"data of {call}()")
        ranks = list(zip(found[0::2], found[1::2], strict=True))
        other = next((rank for rank, row in enumerate(ranks) if row != ranks[0]), None)
        if other is not None:
            raise InputError(f"{call}(): rank {other} has {data_text(*ranks[other])}, rank 0 has {data_text(*ranks[0])}; give all ranks the same data")

    def _train_on_batches(self, data, steps):
        self._agree("train", -1)
        batches = iter(data)
        while steps is None or steps > 0:
            try:
                batch = next(batches)
            except StopIteration:
                break
            steps = None if steps is None else steps - 1
            yield self.step(*pair_of(batch, "a batch of the iterable", ""))

    def _train_on_samples(self, data, steps, how):
        self._agree("train", size_of(data), how[1])
        for _ in range(self._trainer.steps() - self.steps_done if steps is None else steps):
            yield self._alone("train", self._next_step, data, how)

    def _next_step(self, data, how):
        self._refuse_others()
        self._read(data, how)  # anew after a load, a step on other data
        try:
            return self._trainer.next_step()
        except BaseException:  # not later: an error of C++ that is kept there keeps what it went through
            self._stop_reading(1.0)
            raise

    def _read(self, data, how):
        if self._data is not None and self._data[0] is data and self._data[1] == how:
            return
        collate, shuffle, workers = how
        self._stop_reading()
        ended = threading.Event()
        dataset, fetch = dataset_of(data, collate, ended, self._note)
        self._trainer.read(dataset, shuffle, workers)
        self._data = (data, how, fetch, ended)  # whose next samples are those of the next step

    def _stop_reading(self, limit_s=10.0):
        if self._data is not None:
            self._data[3].set()
            self._data = None
            self._trainer.stop_reading(limit_s)

    def _end(self, limit_s=10.0):
        """Before Python ends: ends threads that read, and waits for a call of another thread, the last one."""
        if os.getpid() != self._process:
            return  # its threads are another process's
        self._ended, end = True, time.monotonic() + limit_s
        if (data := self._data) is not None:
            data[3].set()
            self._trainer.end_reading(limit_s)
        while self._calls and time.monotonic() < end:
            time.sleep(0.001)

    def evaluate(self, data: Any, *, collate: Collate | None = None) -> Evaluation:
        """The loss over a sequence of samples, of which each rank reads its share. With optimizer.ema, of the averaged weights."""
        if not is_sequence(data):
            raise InputError(f"evaluate(): {kind(data)} is no sequence of samples; of a DataLoader, pass its dataset")
        self._refuse_others()
        dataset, _fetch = dataset_of(data, collate_of(collate), threading.Event(), self._note)
        self._agree("evaluate", size_of(data))
        loss, targets, hits = self._call("evaluate", dataset)
        return Evaluation(loss, targets, hits if self._counts_hits else None)

    def predict(self, inputs: Inputs, *, gathered: bool = False) -> Any:
        """The model's outputs, on the CPU, for this rank's `inputs`, of any number; `gathered`: for those of all ranks."""
        tensors = tensors_of(inputs)
        self._refuse_others()
        is_empty = all(value.dim() > 0 and len(value) == 0 for value in tensors)
        shows = not flag(gathered, "gathered") and is_empty  # a sample of zeros shows the outputs' shapes
        if is_empty and all(value.dim() == 1 for value in tensors):  # torch.tensor([]) has no shape of its own
            if len(self._none) == len(tensors):
                tensors = self._none
            elif shows:
                raise InputError("predict(): no sample was seen yet that shows the shape of the empty inputs; give them as [0, ...], of the samples' shape and type")
        if shows:
            tensors = [value.new_zeros((1, *value.shape[1:])) for value in tensors]
        outputs = self._call("predict", tensors, gathered)
        if not is_empty:
            self._note(tensors)
        if not outputs:
            raise InputError("predict(): no rank has a sample, so that the outputs' shapes are not known")
        outputs = [value[:0] for value in outputs] if shows else outputs
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    @property
    def share(self) -> range:
        """This rank's samples of the next step, a range of the global batch."""
        first, count = self._trainer.share()
        return range(first, first + count)

    # --- state ---

    def save(self, path: Path, *, replace: bool = False, in_background: bool = False) -> None:
        """Saves weights, optimizer, clock and kept objects as a checkpoint: a new folder, or a URL. It loads at any size and layout."""
        self._call("save", path_of(path), flag(replace, "replace"), flag(in_background, "in_background"))

    def finish_save(self) -> None:
        """Waits for a save in the background; raises its error."""
        self._call("finish_save")

    def load(self, path: Path, *, strict: bool = True) -> int:
        """Loads a checkpoint, also one of `weft train` or of other ranks and layouts. Returns the steps done."""
        return self._alone("load", self._load, path_of(path), flag(strict, "strict"))

    def _load(self, path, strict):
        self._stop_reading()
        return self._trainer.load(path, strict)

    def load_weights(self, path: Path, *, names: dict[str, str] | None = None, skip: str | Sequence[str] = ()) -> None:
        """Starts from the weights in a file or a checkpoint; `names`: {name in the file: name in the model}, '*' for any text.

        skip: names, or patterns of them, that keep their values.
        """
        names, skip = {} if names is None else names, [skip] if isinstance(skip, str) else skip
        if not isinstance(names, dict) or not all(is_text(text) for pair in names.items() for text in pair):
            raise InputError(f"load_weights(): names is {shown(names)}; it must be a dict of texts")
        if not isinstance(skip, (list, tuple)) or not all(is_text(text) for text in skip):
            raise InputError(f"load_weights(): skip is {shown(skip)}; it must be a list of texts")
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(names, file)
            file.flush()
            self._call("load_weights", path_of(path), file.name if names else "", list(skip))

    def keep(self, name: str, value: Any) -> None:
        """Adds an object with state_dict() and load_state_dict(), of what JSON can hold, to checkpoints. Before load(), on all ranks.

        A checkpoint has rank 0's state, which load() gives to all ranks.
        """
        if not is_text(name) or isinstance(value, type) or not all(callable(getattr(value, method, None)) for method in ("state_dict", "load_state_dict")):
            raise InputError(f"keep(): {shown(name)} and {kind(value)}; give a name, and an object with state_dict() and "
                             "load_state_dict()")

        def save():
            try:
                return json.dumps(value.state_dict())
            except (TypeError, ValueError, RecursionError) as error:
                raise InputError(f"keep(): the state of '{name}' is nothing that JSON can hold: {error}") from error

        def load(text):
            value.load_state_dict(json.loads(text))

        save()  # an error now, not after hours
        self._call("keep", name, save, load)
        self._functions += [save, load]

    def state_dict(self, *, average: bool = False) -> dict[str, torch.Tensor]:
        """All parameters and persistent buffers, whole, on the CPU, by the names that the model gives them.

        average: the averaged weights of optimizer.ema instead.
        """
        weights = dict(self._call("weights", flag(average, "average")))
        weights.update({name: weights[owner] for name, owner in self._aliases.items()})
        return {name: value for name, value in weights.items() if name not in self._unsaved}

    def zero_gradients(self) -> dict[str, float]:
        """{parameter: share of its gradient that was exactly zero in the last step}, if half or more: unused, detached or dead ones."""
        return dict(self._call("zero_gradients"))

    # --- figures ---

    @property
    def rank(self) -> int:
        """This process's rank."""
        return self._trainer.rank()

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self._trainer.size()

    @property
    def steps_done(self) -> int:
        """Steps of the run, loaded ones too."""
        return self._trainer.steps_done()

    @property
    def samples_done(self) -> int:
        """Samples of the run, over all its steps."""
        return self._trainer.samples_done()

    @property
    def global_batch(self) -> int:
        """Samples of the next step, over all ranks."""
        return self._trainer.global_batch()

    @property
    def learning_rate(self) -> float:
        """Of the next step."""
        return self._trainer.learning_rate()


@atexit.register
def _end_all():
    """Before Python ends: its end would stop threads that are in a data set with an exception that C++ cannot pass on."""
    for trainer in list(_trainers):
        trainer._end()


def _sections(given, recipe):
    """The sections of a trainer's recipe; and a note on keys of `recipe` that are left out, as they are for `weft train`."""
    if recipe is not None and not isinstance(recipe, dict):
        raise InputError(f"recipe is {kind(recipe)}; it must be a dict of sections, such as weft.load_recipe() returns")
    recipe = recipe or {}
    left_out = [f"[{name}]" for name in recipe if name not in given]
    sections = {}
    for name, values in given.items():
        whole = recipe.get(name, {})
        for part in (values if values is not None else {}, whole):
            if not isinstance(part, dict):
                raise InputError(f"{name} is {kind(part)}; it must be a dict of the recipe's keys of [{name}]")
        wrong = next((key for key in values or {} if f"{name}.{key}" in UNREAD), None)
        if wrong is not None:
            raise InputError(f"{name}.{wrong} is for `weft train`, and does nothing here: {UNREAD[f'{name}.{wrong}']}")
        left_out += [f"{name}.{key}" for key in whole if f"{name}.{key}" in UNREAD]
        sections[name] = {**{key: value for key, value in whole.items() if f"{name}.{key}" not in UNREAD}, **(values or {})}
    sections["run"].setdefault("device", "cpu")  # what the wheel is for; torch may say that it sees a GPU where there is none
    return sections, f"not read from the recipe: {', '.join(left_out)}" if left_out else ""
