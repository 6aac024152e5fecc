"""Calls of `import weft` with wrong types, absurd shapes and sizes, on any number of ranks, and words of the one line that refuses each."""
import math
import copy
import os
import pickle
import re
import tempfile
import time

import jobs
import torch

import weft

nn = torch.nn
HUGE = 2**62


def trainer(model=None, loss="cross_entropy", **options):
    return weft.Trainer(nn.Linear(4, 4) if model is None else model, loss,
                        **{"batch": 4, "log": None, "run": {"threads": 1, "timeout_s": 10}, **options})


def step(inputs=None, target=None, **options):
    """A step; `inputs` and `target` are functions of the number of samples, or values."""
    made = trainer(**options)
    count = len(made.share)
    value = lambda given, default: default(count) if given is None else given(count) if callable(given) else given  # noqa: E731
    return made.step(value(inputs, lambda n: torch.ones(n, 4)), value(target, lambda n: torch.zeros(n, dtype=torch.long)))


def train(data, steps=1, **options):
    return list(trainer().train(data, steps, **options))


def predict(inputs, **options):
    return trainer().predict(inputs, **options)


class Data:
    """Samples, as many as `size` says, or as it lies."""

    def __init__(self, size=16, sample=None, real=HUGE):
        self.size, self.sample, self.real = size, sample, real

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index >= self.real:
            raise IndexError("no such sample")
        return (torch.zeros(4), torch.tensor(0)) if self.sample is None else self.sample


class Holder(nn.Module):
    """A module with a parameter that nothing reads."""

    def __init__(self, *values, grad=True):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        for index, value in enumerate(values):
            setattr(self, f"p{index}", nn.Parameter(value, requires_grad=grad))

    def forward(self, x):
        return self.inner(x)


class State:
    """An object to keep."""

    def __init__(self, value):
        self.value = value

    def state_dict(self):
        return self.value

    def load_state_dict(self, _):
        pass


def twice(made):
    trainer(made)
    return trainer(made)


def losses(loss):
    return step(loss=loss)


def halves():
    base = torch.zeros(8)
    return Holder(base[:4], base[4:])


def changed(model, change):
    """Trains, before and after change(the model of the trainer)."""
    made = trainer(model)
    list(made.train(Data(), 1))
    change(model[0] if isinstance(model, list) else model)
    list(made.train(Data(), 1))


def replaced(call):
    model = nn.Sequential(nn.Linear(4, 4))
    made = trainer(model)
    model[0] = nn.Linear(4, 4)
    call(made)


def forked(call):
    """Raises here what call() raises in a forked process."""
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            call()
        except BaseException as error:
            os.write(write, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.wait()
    os.close(write)
    with open(read, encoding="utf-8") as file:
        name, _, text = file.read().partition(": ")
    if text:
        raise getattr(weft, name, RuntimeError)(text)


def step_forked():
    made = trainer()
    forked(lambda: list(made.train(Data(), 1)))


def evaluate(data, **options):
    return trainer().evaluate(data, **options)


def after(call):
    """What refuses `call` leaves the trainer as it was."""
    made = trainer()
    try:
        call(made)
    finally:
        made.step(torch.ones(len(made.share), 4), torch.zeros(len(made.share), dtype=torch.long))


def load_above():
    """Of a folder of checkpoints, each rank's own."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/step-00000001")
        open(f"{folder}/step-00000001/complete.json", "w", encoding="utf-8").close()
        return trainer().load(folder)


def endless():
    value = []
    value.append(value)
    return value


IN = weft.InputError
# Each is refused by an error of its class, in one line that has the words; None: accepted.
CALLS = {
    # models
    "model None": (lambda: trainer("x"), IN, "a str is no block"),
    "model of None": (lambda: trainer([nn.Linear(4, 4), None]), IN, "a NoneType is no block"),
    "model dict": (lambda: trainer({"a": nn.Linear(4, 4)}), IN, "a dict is no block"),
    "model generator": (lambda: trainer(nn.Linear(4, 4) for _ in range(2)), IN, "a generator is no block"),
    "model class": (lambda: trainer(nn.Linear), IN, "a type is no block"),
    "model ModuleDict": (lambda: trainer(nn.ModuleDict({"a": nn.Linear(4, 4)})), IN, "a ModuleDict is no block"),
    "model ParameterList": (lambda: trainer(nn.ParameterList([torch.zeros(3)])), IN, "a ParameterList is no block"),
    "model of lists": (lambda: trainer([[nn.Linear(4, 4)]]), IN, "a list is no block"),
    "model lazy": (lambda: trainer(nn.LazyLinear(4)), IN, "lazy module"),
    "model meta": (lambda: trainer(nn.Linear(4, 4, device="meta")), IN, "meta device"),
    "model float64": (lambda: trainer(nn.Linear(4, 4).double()), IN, "of torch.float64; call the module's float()"),
    "model bfloat16": (lambda: trainer(nn.Linear(4, 4).bfloat16()), IN, "of torch.bfloat16; call the module's float()"),
    "model complex": (lambda: trainer(Holder(torch.zeros(2, dtype=torch.complex64))), IN, "of torch.complex64"),
    "model integers": (lambda: trainer(Holder(torch.zeros(2, dtype=torch.long), grad=False)), IN, "of torch.int64"),
    "model sparse": (lambda: trainer(Holder(torch.zeros(2, 2).to_sparse())), IN, "is sparse"),
    "model frozen": (lambda: step(model=nn.Linear(4, 4).requires_grad_(False)), IN, "nothing to train"),
    "model without parameters": (lambda: step(model=[nn.ReLU()]), IN, "nothing to train"),
    "model of views": (lambda: trainer(halves()), IN, "'p0' and 'p1' share memory"),
    "model of another trainer": (lambda: twice(nn.Linear(4, 4)), IN, "an earlier trainer's"),
    "sequence of another trainer": (lambda: twice(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))), IN, "an earlier trainer's"),
    "layer replaced": (lambda: changed([nn.Sequential(nn.Linear(4, 4))], lambda block: block.__setitem__(0, nn.Linear(4, 4))), IN,
                       "block 0: '0' was set after the trainer was made, which would not train or save its 'weight'"),
    "layer added": (lambda: changed(Holder(), lambda block: block.inner.add_module("more", nn.BatchNorm1d(4))), IN, "'inner.more' was set after"),
    "layer in layers added": (lambda: changed([nn.Sequential(nn.Linear(4, 4))], lambda block: block.append(nn.Sequential(nn.Linear(4, 4)))), IN,
                              "not train or save its '0.weight'"),
    "weight_norm added": (lambda: changed(Holder(), lambda block: nn.utils.parametrizations.weight_norm(block.inner)), IN, "'inner.parametrizations' was set"),
    "function added": (lambda: changed([nn.Sequential(nn.Linear(4, 4))], lambda block: block.append(nn.Tanh())), None, ""),
    "layer wrapped": (lambda: changed(Holder(), lambda block: setattr(block, "inner", nn.Sequential(block.inner))), None, ""),
    "module of a sequence replaced": (lambda: changed(nn.Sequential(nn.Linear(4, 4)), lambda model: model.__setitem__(0, nn.Linear(4, 4))), IN,
                                      "module '0' of the Sequential was set or removed"),
    "module replaced before a prediction": (lambda: replaced(lambda made: made.predict(torch.ones(2, 4))), IN, "module '0' of the Sequential was set or removed"),
    "module replaced before an evaluation": (lambda: replaced(lambda made: made.evaluate(Data())), IN, "module '0' of the Sequential was set or removed"),
    "module of a list removed": (lambda: changed(nn.ModuleList([nn.Linear(4, 4), nn.Tanh()]), lambda model: model.__delitem__(1)), IN,
                                 "module '1' of the ModuleList was set or removed"),
    "parameters odd": (lambda: step(model=Holder(torch.empty(0), torch.tensor(1.0), torch.zeros(3, 2).t(), torch.zeros(1).expand(3))), None, ""),
    # options
    "batch 0": (lambda: trainer(batch=0), IN, "at least 1, found 0"),
    "batch -1": (lambda: trainer(batch=-1), IN, "at least 1, found -1"),
    "lr text": (lambda: trainer(optimizer={"lr": "fast"}), IN, "optimizer.lr"),
    "batch True": (lambda: trainer(batch=True), IN, "batch is a bool"),
    "batch 4.0": (lambda: trainer(batch=4.0), IN, "batch is a float"),
    "batch huge": (lambda: trainer(batch=HUGE), IN, "at most 1000000000"),
    "batch of digits": (lambda: trainer(batch=10**5000), IN, "batch.global is an int of 16610 bits"),
    "optimizer list": (lambda: trainer(optimizer=[]), IN, "optimizer is a list"),
    "lr NaN": (lambda: trainer(optimizer={"lr": math.nan}), IN, "found nan"),
    "lr of itself": (lambda: trainer(optimizer={"lr": endless()}), IN, "contains itself"),
    "lr tensor": (lambda: trainer(optimizer={"lr": torch.ones(9, 9)}), IN, "optimizer.lr is a Tensor"),
    "key 3": (lambda: trainer(optimizer={3: 4}), IN, "unknown key 'optimizer.3'"),
    "name surrogate": (lambda: trainer(optimizer={"name": "\ud800"}), IN, "no text in UTF-8"),
    "name NUL": (lambda: trainer(optimizer={"name": "a\0"}), IN, "NUL"),
    "threads huge": (lambda: trainer(run={"threads": HUGE}), IN, "at most 4096"),
    "timeout NaN": (lambda: trainer(run={"timeout_s": math.nan}), IN, "found nan"),
    "run in tokens": (lambda: trainer(run={"tokens": 100}), IN, "in tokens"),
    "warm-up in epochs": (lambda: trainer(optimizer={"warmup": "1 epochs"}), IN, "in epochs"),
    "tp": (lambda: trainer(layout={"tp": weft.world_size()}) if weft.world_size() > 1 else trainer(layout={"tp": 2}), IN, "layout.tp = 2"),
    "cp": (lambda: trainer(layout={"cp": 2}), IN, "layout.cp = 2"),
    "pp of one block": (lambda: trainer(layout={"pp": 2}), IN, "layout"),
    "schedule auto": (lambda: trainer(layout={"style": "auto"}), IN, 'layout = "auto"'),
    "recipe text": (lambda: trainer(recipe="gpt"), IN, "recipe is a str"),
    "recipe section": (lambda: trainer(recipe={"optimizer": [1]}), IN, "optimizer is a list"),
    "log": (lambda: trainer(log=3), IN, "log is an int"),
    "folder": (lambda: trainer(run={"folder": "x"}), IN, "run.folder is for `weft train`"),
    "evaluate_every": (lambda: trainer(run={"evaluate_every": 5}), IN, "run.evaluate_every is for `weft train`"),
    "loss_chunk": (lambda: trainer(layout={"loss_chunk": 4}), IN, "layout.loss_chunk is for `weft train`"),
    # losses
    "loss number": (lambda: trainer(loss=3), IN, "loss is an int"),
    "loss None": (lambda: losses(lambda o, t: None), IN, "the loss is a NoneType"),
    "loss of samples": (lambda: losses(lambda o, t: o.sum(1)), IN, "must be a tensor with one number"),
    "loss integers": (lambda: losses(lambda o, t: o.sum().long()), IN, "of torch.int64; it must be"),
    "loss of three": (lambda: losses(lambda o, t: (o.sum(), 1, 2)), IN, "the loss is a tuple"),
    "loss count float": (lambda: losses(lambda o, t: (o.sum(), 1.5)), IN, "count is 1.5"),
    "loss count -1": (lambda: losses(lambda o, t: (o.sum(), -1)), IN, "count is -1"),
    "loss count -3 in a tensor": (lambda: losses(lambda o, t: (o.sum(), torch.tensor(-3))), IN, "count is tensor(-3)"),
    "loss count huge": (lambda: losses(lambda o, t: (o.sum(), 2**70)), IN, "count is 1180591620717411303424"),
    "loss count tensor": (lambda: losses(lambda o, t: (o.sum(), torch.tensor(1.0))), IN, "in an int64 tensor"),
    "loss of a parameter": (lambda: losses(lambda o, t, scale=nn.Parameter(torch.ones(4)): (o * scale).square().sum()), IN,
                            "the loss reads a parameter of shape [4]"),
    "loss of a frozen one": (lambda: losses(lambda o, t, scale=nn.Parameter(torch.ones(4), requires_grad=False): (o * scale).square().sum()), None, ""),
    "loss of the model's": (lambda model=nn.Linear(4, 4): step(model=model, loss=lambda o, t: o.square().sum() + model.weight.square().sum()), None, ""),
    "loss without graph": (lambda: losses(lambda o, t: o.sum().detach()), IN, "no gradient"),
    "loss NaN": (lambda: losses(lambda o, t: o.sum() * math.nan), weft.NumericError, "the loss is nan"),
    "loss count 0": (lambda: losses(lambda o, t: (o.sum(), 0)), weft.Error, "no target of the whole global batch counts"),
    # inputs
    "inputs None": (lambda: step(lambda n: None), IN, "not a NoneType"),
    "inputs text": (lambda: step("x"), IN, "not a str"),
    "inputs empty tuple": (lambda: step(()), IN, "not empty"),
    "inputs sparse": (lambda: step(lambda n: torch.zeros(n, 4).to_sparse()), IN, "is sparse"),
    "inputs meta": (lambda: step(lambda n: torch.zeros(n, 4, device="meta")), IN, "on meta"),
    "inputs quantized": (lambda: step(lambda n: torch.quantize_per_tensor(torch.zeros(n, 4), 0.1, 0, torch.qint8)), IN, "quantized"),
    "inputs 0-d": (lambda: step(torch.tensor(1.0)), IN, "no dimension of samples"),
    "inputs of 0": (lambda: step(torch.empty(0, 4)), IN, "has 0 samples"),
    "inputs of one more": (lambda: step(lambda n: torch.zeros(n + 1, 4)), IN, "samples in a batch on rank"),
    "inputs and more": (lambda: step(lambda n: (torch.zeros(n, 4), torch.zeros(n + 1))), IN, "input 1 has"),
    "inputs float64": (lambda: step(lambda n: torch.zeros(n, 4, dtype=torch.float64)), None, ""),
    "inputs not in order": (lambda: step(lambda n: torch.zeros(4, n).t()), None, ""),
    "inputs expanded": (lambda: step(lambda n: torch.zeros(1, 4).expand(n, 4)), None, ""),
    "inputs with gradient": (lambda: step(lambda n: torch.zeros(n, 4, requires_grad=True) * 2), None, ""),
    "inputs NaN": (lambda: step(lambda n: torch.full((n, 4), math.nan)), weft.NumericError, "the data itself has NaN"),
    "inputs wide": (lambda: step(lambda n: torch.zeros(n, 10000)), RuntimeError, "mat1 and mat2"),
    "inputs complex": (lambda: step(lambda n: torch.zeros(n, 4, dtype=torch.complex64)), RuntimeError, "same dtype"),
    # targets
    "target None": (lambda: step(target=lambda n: None), IN, "not a NoneType"),
    "target list": (lambda: step(target=[0, 0]), IN, "not a list"),
    "target short": (lambda: step(target=lambda n: torch.zeros(n - 1, dtype=torch.long)), IN, "the target has"),
    "target 0-d": (lambda: step(target=torch.tensor(0)), IN, "no dimension of samples"),
    "target of no class": (lambda: step(target=lambda n: torch.full((n,), HUGE)), IN, "not one of the 4 classes"),
    "target -1": (lambda: step(target=lambda n: torch.full((n,), -1)), IN, "not one of the 4 classes"),
    "target float": (lambda: step(target=lambda n: torch.zeros(n)), IN, "class ids must be int64"),
    "classes not last": (lambda: step(lambda n: torch.zeros(n, 5, 4), lambda n: torch.zeros(n, 4, dtype=torch.long)), IN, "classes are the last dimension"),
    "target int32": (lambda: step(target=lambda n: torch.zeros(n, dtype=torch.int32)), IN, "must be class ids"),
    "target sparse": (lambda: step(target=lambda n: torch.zeros(n, 4).to_sparse()), IN, "is sparse"),
    "squares of shape": (lambda: step(loss="mean_squares"), IN, "one shape"),
    "squares of integers": (lambda: step(target=lambda n: torch.zeros(n, 4, dtype=torch.long), loss="mean_squares"), None, ""),
    "squares of float64": (lambda: step(target=lambda n: torch.zeros(n, 4, dtype=torch.float64), loss="mean_squares"), None, ""),
    # data
    "data None": (lambda: train(None), IN, "no sequence of samples"),
    "data number": (lambda: train(3), IN, "no sequence of samples"),
    "data text": (lambda: train("text"), IN, "a batch of the iterable is a str"),
    "data tensor": (lambda: train(torch.zeros(8, 4)), IN, "is a Tensor, not (inputs, target)"),
    "data of 0": (lambda: train(Data(0)), IN, "the data set is empty"),
    "data of -1": (lambda: train(Data(-1)), IN, "no number of samples"),
    "data of 2.5": (lambda: train(Data(2.5)), IN, "no number of samples"),
    "data of 2**63": (lambda: train(Data(2**63)), IN, "no number of samples"),
    "data of 2**62": (lambda: train(Data(HUGE)), None, ""),
    "data that lies": (lambda: train(Data(64, real=8), 8), IndexError, "no such sample"),
    "data that lies, read ahead": (lambda: train(Data(64, real=8), 8, workers=2), IndexError, "no such sample"),
    "samples of None": (lambda: train(Data(sample=(None, None))), TypeError, "default_collate"),
    "samples of three": (lambda: train(Data(sample=(1, 2, 3))), IN, "not (inputs, target)"),
    "samples of text": (lambda: train(Data(sample=("a", "b"))), IN, "not a str"),
    "batches of None": (lambda: train(iter([None])), IN, "a batch of the iterable is a NoneType"),
    "batches of three": (lambda: train(iter([(1, 2, 3)])), IN, "a batch of the iterable is a tuple"),
    "batches read ahead": (lambda: train(iter([]), workers=2), IN, "which workers is for"),
    "steps -1": (lambda: train(Data(), -1), IN, "steps is -1"),
    "steps 1.5": (lambda: train(Data(), 1.5), IN, "steps is 1.5"),
    "steps tensor": (lambda: train(Data(), torch.ones(9, 9)), IN, "steps is a Tensor"),
    "steps unknown": (lambda: train(Data(), None), IN, "how many steps?"),
    "workers -1": (lambda: train(Data(), workers=-1), IN, "workers is -1"),
    "workers huge": (lambda: train(Data(), workers=HUGE), IN, f"workers is {HUGE}"),
    "workers 5000": (lambda: train(Data(), workers=5000), IN, "workers = 5000"),
    "shuffle text": (lambda: train(Data(), shuffle="no"), IN, "shuffle is 'no'"),
    "collate number": (lambda: train(Data(), collate=3), IN, "collate is an int"),
    "collate None": (lambda: train(Data(), collate=lambda rows: None), IN, "is a NoneType, not (inputs, target)"),
    "collate short": (lambda: train(Data(), collate=lambda rows: (torch.zeros(1, 4), torch.zeros(1))), IN, "were requested"),
    "evaluate None": (lambda: evaluate(None), IN, "no sequence of samples"),
    "evaluate 0": (lambda: after(lambda made: made.evaluate([])), IN, "the data set is empty"),
    "evaluate that lies": (lambda: evaluate(Data(64, real=0)), IndexError, "no such sample"),
    "predict text": (lambda: predict("x"), IN, "not a str"),
    "predict 0-d": (lambda: predict(torch.tensor(1.0)), IN, "no dimension of samples"),
    "predict nothing yet": (lambda: predict(torch.tensor([])), IN, "no sample was seen yet"),
    "predict nothing": (lambda: predict(torch.empty(0, 4)), None, ""),
    "predict nothing anywhere": (lambda: predict(torch.empty(0, 4), gathered=True), IN, "no rank has a sample"),
    "predict lengths": (lambda: predict((torch.zeros(2, 4), torch.zeros(3, 4))), IN, "input 1 has 3 samples"),
    "gathered text": (lambda: predict(torch.zeros(1, 4), gathered="yes"), IN, "gathered is 'yes'"),
    # state
    "save None": (lambda: after(lambda made: made.save(None)), IN, "the path is None"),
    "save NUL": (lambda: after(lambda made: made.save("/tmp/a\0b")), IN, "without NUL"),
    "save empty": (lambda: after(lambda made: made.save("")), IN, "not a folder for a checkpoint"),
    "save nowhere": (lambda: after(lambda made: made.save("/proc/none/here")), weft.Error, "could not make the folder"),
    "save in a file": (lambda: after(lambda made: made.save("/etc/passwd")), weft.Error, "/etc/passwd"),
    "save long": (lambda: after(lambda made: made.save("/tmp/" + "a" * 5000)), weft.Error, "aaa"),
    "save replace": (lambda: after(lambda made: made.save("/tmp/x", replace=1)), IN, "replace is 1"),
    "keep number": (lambda: after(lambda made: made.keep(3, State(0))), IN, "give a name"),
    "keep class": (lambda: after(lambda made: made.keep("a", State)), IN, "give a name, and an object"),
    "keep tensor": (lambda: after(lambda made: made.keep("a", State(torch.zeros(2)))), IN, "nothing that JSON can hold"),
    "keep itself": (lambda: after(lambda made: made.keep("a", State(endless()))), IN, "nothing that JSON can hold"),
    "keep a/b": (lambda: after(lambda made: made.keep("a/b", State(0))), IN, "without '/'"),
    "keep surrogate": (lambda: after(lambda made: made.keep("\ud800", State(0))), IN, "give a name"),
    "load None": (lambda: after(lambda made: made.load(None)), IN, "the path is None"),
    "load nowhere": (lambda: trainer().load("/nowhere"), IN, "/nowhere: no checkpoint is there"),
    "load folder of checkpoints": (lambda: load_above(), IN, "name one of them, such as the newest, step-00000001"),
    "load strict": (lambda: after(lambda made: made.load("/nowhere", strict="a")), IN, "strict is 'a'"),
    "load_weights nowhere": (lambda: trainer().load_weights("/nowhere"), IN, "/nowhere"),
    "load_weights text": (lambda: trainer().load_weights("/etc/passwd"), IN, "not a safetensors file"),
    "load_weights names": (lambda: after(lambda made: made.load_weights("/x", names={"a": 3})), IN, "a dict of texts"),
    "load_weights skip": (lambda: after(lambda made: made.load_weights("/x", skip=3)), IN, "a list of texts"),
    "state_dict average": (lambda: after(lambda made: made.state_dict(average=True)), IN, "no average"),
    "state_dict text": (lambda: after(lambda made: made.state_dict(average="a")), IN, "average is 'a'"),
    # processes
    "trainer pickled": (lambda: after(pickle.dumps), IN, "a Trainer can be neither pickled nor copied"),
    "trainer copied": (lambda: after(copy.deepcopy), IN, "a Trainer can be neither pickled nor copied"),
    "step in a fork": (step_forked, IN, "train(): this process was forked after the trainer was made"),
    # functions
    "chain None": (lambda: weft.chain(None, torch.zeros(1)), IN, "a NoneType is no block"),
    "chain leaf": (lambda: weft.chain(nn.Linear(4, 4), torch.zeros(1, 4)), IN, "has no children"),
    "chain dict": (lambda: weft.chain(jobs.Named(), torch.zeros(1, 4)), IN, "does more than call its children"),
    "chain text": (lambda: weft.chain(nn.Sequential(nn.Linear(4, 4)), "x"), TypeError, "must be Tensor"),
    "chain NaN": (lambda: weft.chain(nn.Sequential(nn.Linear(4, 4)), torch.full((1, 4), math.nan)), None, ""),
    "rank text": (lambda: weft.rank("x"), IN, "timeout_s is 'x'"),
    "rank NaN": (lambda: weft.rank(math.nan), IN, "timeout_s is nan"),
    "world_size -1": (lambda: weft.world_size(-1), IN, "timeout_s is -1"),
    "load_recipe None": (lambda: weft.load_recipe(None), IN, "recipe is None"),
    "load_recipe folder": (lambda: weft.load_recipe("/tmp"), IN, "Is a directory"),
    "load_recipe binary": (lambda: weft.load_recipe("/bin/ls"), IN, "can't decode"),
    "memory None": (lambda: weft.memory(None), IN, "recipe is None"),
    "memory of itself": (lambda: weft.memory({"model": {"name": endless()}}), IN, "contains itself"),
    "memory ranks": (lambda: weft.memory("gpt", 1.5), IN, "ranks is 1.5"),
    "memory option": (lambda: weft.memory("gpt", 1, set=torch.zeros(9, 9)), IN, "set is a Tensor"),
    "plan ranks": (lambda: weft.plan("gpt", 0), IN, "ranks is 0"),
    "simulate section": (lambda: weft.simulate({"model": 3}), IN, "'model' is an int"),
    "train recipe": (lambda: weft.train(3), IN, "recipe is 3"),
    "spawn None": (lambda: weft.spawn(None, 1), IN, "the function is a NoneType"),
    "spawn local": (lambda: weft.spawn(lambda: 1, 1), IN, "cannot be pickled"),
    "spawn True": (lambda: weft.spawn(print, True), IN, "ranks is True"),
    "spawn 1.5": (lambda: weft.spawn(print, 1.5), IN, "ranks is 1.5"),
}


def outcomes():
    """(what, seconds) of each call, in which `what` is empty if it ends as it must."""
    found = {}
    for name, (call, error, words) in CALLS.items():
        begin, what = time.monotonic(), ""
        try:
            call()
            if error is not None:
                what = "accepted"
        except Exception as raised:
            text = str(raised)
            if error is None or not isinstance(raised, error) or words not in text or "\n" in text or re.match(r"recipe:\d", text):
                what = f"{type(raised).__name__}: {text}"
        found[name] = what, time.monotonic() - begin
    return found


def uneven():
    """The error of a step for which rank 1 has a sample too few, its seconds, and the loss of a new trainer."""
    made, count = trainer(run={"threads": 1, "timeout_s": 2}), 2 - weft.rank()
    begin = time.monotonic()
    try:
        made.step(torch.zeros(count, 4), torch.zeros(count, dtype=torch.long))
    except weft.Error as error:
        failed = type(error).__name__, str(error), time.monotonic() - begin
    time.sleep(5 * weft.rank())  # rank 0 waits for it meanwhile
    return failed, step().loss


def unlike():
    """The errors of calls that differ on rank 1, or come from a forked process."""
    made, first, texts = trainer(), weft.rank() == 0, []
    for call in (lambda: list(made.train(Data(16 if first else 12), 1)), lambda: list(made.train(Data(), 1, shuffle=first)),
                 lambda: list(made.train(Data() if first else iter([]), 1)), lambda: made.evaluate(Data(16 if first else 12)),
                 lambda: forked(trainer), lambda: forked(weft.rank)):
        try:
            call()
            texts.append("")
        except weft.InputError as error:
            texts.append(str(error))
    return texts, [step.step for step in made.train(Data(), 2)]


def ranked():
    """All of them, in one pair of processes."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        return outcomes(), uneven(), unlike()
