"""Tests of `import weft`, run by pytest in an environment with the wheel (python_test.py)."""
import ast
import gc
import inspect
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import weakref

import jobs
import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import weft
from weft import _weft
from weft.blocks import Described, blocks_of
from weft.trainer import UNREAD

RUN = {"threads": 1}
FIGURES = os.environ["WEFT_TEST_FIGURES"]


def by_hand(blocks, loss, data, optimizer, steps=4, batch=8):
    """PyTorch's own loop over the same batches, on one process."""
    losses = []
    for step in range(steps):
        rows = [data[(step * batch + i) % len(data)] for i in range(batch)]
        x, target = torch.stack([row[0] for row in rows]), torch.stack([row[1] for row in rows])
        for block in blocks:
            x = block(x)
        value = loss(x, target)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def mean_loss(logits, target):
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def parameters(blocks):
    return list({id(p): p for block in blocks for p in block.parameters()}.values())


ADAM = {"name": "adamw", "lr": 1e-2, "weight_decay": 0.0}
LAYOUTS = [
    {"layout": {}},
    {"layout": {"shard_level": "parameters"}},
    {"layout": {"pp": 2}},
    {"layout": {"pp": 2, "recompute": "blocks"}},
    {"layout": {"shard_level": "optimizer"}},
]


def trainings(layouts):
    """Jobs whose losses are PyTorch's."""
    return [{"options": {**layout, "optimizer": ADAM}, "shuffle": False} for layout in layouts]


def exact(layouts):
    """Jobs with shuffled data, dropout, sums in slots and a loss of Python's, whose losses have the same bits on any number of ranks."""
    return [{"options": {"layout": layout, "run": {"reproducible_slots": 4}}, "make": dropping, "loss": jobs.tokens_loss} for layout in layouts]


PICKLED = [torch.arange(6.0).view(2, 3), torch.arange(6.0).view(2, 3).t()[1:], torch.ones(2, requires_grad=True), torch.tensor([True, False]),
           torch.tensor(1.0).share_memory_(), torch.nn.Linear(3, 2), mean_loss]


@pytest.fixture(scope="session")
def two(tmp_path_factory):
    """Results of two ranks, and the folder of a checkpoint of theirs. All in one pair of processes, as importing torch takes seconds."""
    folder = str(tmp_path_factory.mktemp("two") / "saved")
    calls = [(jobs.many, trainings(LAYOUTS)), (jobs.many, exact([{}, {"pp": 2}, {"shard_level": "parameters"}])),
             (jobs.save, folder, {"shard_level": "parameters"}), (jobs.shares,), (jobs.buffers, {"pp": 2}, f"{folder}.buffers"),
             (jobs.pickled, *PICKLED)]
    return weft.spawn(jobs.all_of, 2, calls), folder


@pytest.fixture(scope="session")
def four(two):
    """The same of four ranks, which load that checkpoint."""
    calls = [(jobs.many, exact([{"pp": 2, "shard_level": "gradients"}])), (jobs.load, two[1], {"pp": 2, "shard_level": "optimizer"})]
    return weft.spawn(jobs.all_of, 4, calls)


def test_same_losses_as_torch(two):
    """Blocks with a tied weight, in each layout, train as PyTorch's own loop does."""
    blocks = jobs.gpt()
    expected = by_hand(blocks, mean_loss, jobs.texts(), torch.optim.Adam(parameters(blocks), lr=1e-2))
    for found, layouts in ((jobs.many(trainings(LAYOUTS[:1])), LAYOUTS[:1]), *((results[0], LAYOUTS) for results in two[0])):
        for (losses, weights), layout in zip(found, layouts, strict=True):
            assert losses == pytest.approx(expected, abs=2e-6), layout
            assert torch.allclose(weights["0.words.weight"], blocks[0].words.weight, atol=1e-5), layout
            assert torch.equal(weights["3.words.weight"], weights["0.words.weight"])


def test_same_bits_for_any_ranks(two, four):
    one = jobs.many(exact([{}]))[0][0]
    assert len(set(one)) == 4
    for results in (*(rank[1] for rank in two[0]), *(rank[0] for rank in four)):
        assert [losses for losses, _ in results] == [one] * len(results)


def dropping():
    return jobs.gpt(dropout=0.1)


def test_same_bits_as_the_command(tmp_path, monkeypatch):
    """The same operators, data and order by `weft train`, from an exported model."""
    from weft.export import export

    monkeypatch.chdir(tmp_path)
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    export(net, torch.zeros(2, 1, 4, 4), "net.pt2")
    images = torch.randint(0, 256, (40, 4, 4), dtype=torch.uint8)
    labels = torch.randint(0, 4, (40,), dtype=torch.uint8)
    for kind in ("train", "t10k"):
        for name, values in ((f"{kind}-images-idx3-ubyte", images), (f"{kind}-labels-idx1-ubyte", labels)):
            header = bytes([0, 0, 8, values.dim()]) + b"".join(size.to_bytes(4, "big") for size in values.shape)
            (tmp_path / name).write_bytes(header + values.numpy().tobytes())
    recipe = {
        "model": {"name": "exported", "path": "net.pt2", "channels": 1, "image_size": 4, "classes": 4},
        "data": {"name": "images", "path": str(tmp_path)}, "batch": {"global": 8}, "run": {"steps": 5, "threads": 1, "seed": 3},
        "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9},
    }
    summary = weft.train(recipe, quiet=True)
    trainer = weft.Trainer(net, recipe=recipe, log=None)
    pixels = ((images.double() / 255 - 0.2860) / 0.3530).float().unsqueeze(1)  # as weft scales images of this kind
    steps = list(trainer.train([(pixel, int(label)) for pixel, label in zip(pixels, labels, strict=True)]))
    assert steps[-1].loss == summary["loss"]


def test_exported_transformers(tmp_path, monkeypatch):
    """GPT-2 by the page's module, trained by the command, and its tied weights back in Python; refused without that module."""
    from safetensors.torch import load_model
    from transformers import GPT2Config, GPT2LMHeadModel

    from weft.export import export

    page = (pathlib.Path(__file__).parent / "exported.md").read_text(encoding="utf-8")
    scope = {"torch": torch}
    exec(re.search(r"```python\n(class Logits.*?)```", page, re.DOTALL)[1], scope)
    make = lambda: GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=8, n_embd=8, n_layer=1, n_head=2))  # noqa: E731
    monkeypatch.chdir(tmp_path)
    model, ids = scope["Logits"](make()), torch.zeros(2, 8, dtype=torch.int64)
    export(model, ids, "gpt2.pt2")
    with pytest.raises(weft.InputError, match="give the model its mask, as in docs/exported.md, Hugging Face"):
        model.forward = lambda ids: model.model(input_ids=ids, use_cache=False).logits
        export(model, ids, "gpt2.pt2")
    del model.forward
    (tmp_path / "ids").write_bytes(bytes(part for i in range(64) for part in (i, 0)) * 20)
    weft.train({"model": {"name": "exported", "path": "gpt2.pt2", "inputs": "tokens", "context": 8, "vocabulary": 64},
                "data": {"name": "tokens", "path": "ids", "tokenizer": "uint16", "evaluation": 0.5}, "batch": {"global": 8},
                "run": {"steps": 2, "threads": 1}, "optimizer": {"lr": 0.1}}, quiet=True, save="w.safetensors")
    before = model.model.lm_head.weight.clone()
    assert not any(load_model(model, "w.safetensors")) and not torch.equal(model.model.lm_head.weight, before)


def test_batch_norm_and_evaluation():
    """Statistics as PyTorch's, also in an evaluation; flags of frozen modules stay."""
    torch.manual_seed(2)
    make = lambda: torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 3))  # noqa: E731
    net, peer = make(), make()
    peer.load_state_dict(net.state_dict())
    data = [(torch.randn(4), torch.tensor(i % 3)) for i in range(16)]
    expected = by_hand([peer], F.cross_entropy, data, torch.optim.SGD(peer.parameters(), lr=0.1))
    trainer = weft.Trainer(net, F.cross_entropy, batch=8, optimizer={"name": "sgd", "lr": 0.1, "momentum": 0.0, "weight_decay": 0.0}, run=RUN, log=None)
    assert [step.loss for step in trainer.train(data, 4, shuffle=False)] == pytest.approx(expected, abs=1e-6)
    peer.eval()
    inputs = torch.stack([row[0] for row in data])
    assert torch.allclose(trainer.predict(inputs), peer(inputs), atol=1e-6)
    assert trainer.predict(inputs[:0]).shape == trainer.predict(torch.tensor([])).shape == (0, 3)
    assert trainer.evaluate(data).loss == pytest.approx(F.cross_entropy(peer(inputs), torch.stack([row[1] for row in data])).item(), abs=1e-6)
    assert all(module.training for module in net.modules())
    state = trainer.state_dict()
    assert set(state) == set(peer.state_dict())
    assert int(state["1.num_batches_tracked"]) == 4
    peer.load_state_dict(state)


class Doubled(torch.autograd.Function):
    """An operator of Python's own, forward and backward."""

    @staticmethod
    def forward(ctx, x, fails):
        ctx.fails = fails
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        if ctx.fails:
            raise LookupError("no gradient here")
        return 2 * gradient, None


class Own(torch.nn.Module):
    """Own operators, hooks, checkpointing, in-graph control flow."""

    def __init__(self, fails=False):
        super().__init__()
        self.inner, self.fails, self.hooked = torch.nn.Linear(4, 4), fails, 0
        self.inner.register_forward_hook(self.hook)

    def hook(self, *_):
        self.hooked += 1

    def forward(self, x):
        x = Doubled.apply(x, self.fails)
        return checkpoint(self.inner, x, use_reentrant=False) if x.sum() > -1e9 else x


def test_python_inside_blocks():
    data = [(torch.randn(4, generator=torch.Generator().manual_seed(i)), torch.tensor(i % 4)) for i in range(16)]
    torch.manual_seed(4)
    blocks = [torch.nn.Linear(4, 4), Own(), torch.compile(torch.nn.Linear(4, 4), backend="eager")]
    torch.manual_seed(4)
    peers = [torch.nn.Linear(4, 4), Own(), torch.nn.Linear(4, 4)]
    expected = by_hand(peers, F.cross_entropy, data, torch.optim.SGD(parameters(peers), lr=0.1))
    trainer = weft.Trainer(blocks, batch=8, optimizer={"name": "sgd", "lr": 0.1, "momentum": 0.0, "weight_decay": 0.0}, run=RUN, log=None)
    assert [step.loss for step in trainer.train(data, 4, shuffle=False)] == pytest.approx(expected, abs=1e-6)
    assert blocks[1].hooked == 4


def test_transformers():
    """GPT-2 of transformers, as one block and cut into its layers."""
    from transformers import GPT2Config, GPT2LMHeadModel

    def model():
        torch.manual_seed(5)
        return GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=16, n_head=2, vocab_size=32, n_positions=8, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))

    class Whole(torch.nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, ids):
            return self.inner(ids).logits

    class First(torch.nn.Module):
        def __init__(self, wte, wpe):
            super().__init__()
            self.wte, self.wpe = wte, wpe

        def forward(self, ids):
            return self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))

    class Rest(torch.nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            y = self.layer(x)
            return y[0] if isinstance(y, tuple) else y

    whole = model()
    expected = by_hand([Whole(whole)], mean_loss, jobs.texts(), torch.optim.Adam(whole.parameters(), lr=1e-2))
    parts = model()
    t = parts.transformer
    for blocks in (Whole(model()), [First(t.wte, t.wpe), *(Rest(layer) for layer in t.h), torch.nn.Sequential(t.ln_f, parts.lm_head)]):
        trainer = weft.Trainer(blocks, batch=8, optimizer=ADAM, run=RUN, log=None)
        assert [step.loss for step in trainer.train(jobs.texts(), 4, shuffle=False)] == pytest.approx(expected, abs=2e-6)


def test_checkpoints(two, four):
    """Saved on two ranks, continued on one and four, with the same bits."""
    losses = two[0][0][2]
    assert jobs.load(two[1], {}) == losses[2:]
    assert [rank[1] for rank in four] == [losses[2:]] * 4


def test_weights_from_torch(tmp_path):
    """A state_dict saved by PyTorch, under other names."""
    from safetensors.torch import save_file

    peer = torch.nn.Linear(4, 3)
    save_file({"old.weight": peer.weight.detach(), "old.bias": peer.bias.detach()}, tmp_path / "w.safetensors")
    trainer = weft.Trainer([torch.nn.Linear(4, 3)], batch=4, run=RUN, log=None)
    trainer.load_weights(tmp_path / "w.safetensors", names={"old.*": "0.*"})
    assert torch.equal(trainer.state_dict()["0.weight"], peer.weight)


def test_shares(two):
    """Each rank's part by hand, an iterable of batches, evaluation and prediction."""
    one = jobs.shares()
    for rank, found in enumerate(results[3] for results in two[0]):
        assert found[0] == rank and found[1] == list(range(4 * rank, 4 * rank + 4))
        assert found[2] == pytest.approx(one[2], abs=1e-6) and found[3] == pytest.approx(one[3], abs=1e-5)
        assert found[4:] == (24 * 8, (8, 8, 32), 2)


def test_unused_parameters_are_named():
    """A reentrant checkpoint in the first block trains nothing, which is told."""
    class Reentrant(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(4, 4)

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=True)

    trainer = weft.Trainer([Reentrant(), torch.nn.Linear(4, 4)], batch=8, run=RUN, log=None)
    trainer.step(torch.randn(8, 4), torch.arange(8) % 4)
    assert trainer.zero_gradients() == {"0.inner.weight": 1.0, "0.inner.bias": 1.0}


class Raises(torch.nn.Module):
    """A block that fails in its second forward."""

    def __init__(self, error):
        super().__init__()
        self.weight, self.error, self.calls = torch.nn.Parameter(torch.zeros(4)), error, 0

    def forward(self, x):
        self.calls += 1
        if self.calls == 2:
            raise self.error
        return x + self.weight


class Rows:
    """Samples, of which some fail."""

    def __init__(self, error=None):
        self.error = error

    def __len__(self):
        return 16

    def __getitem__(self, index):
        if self.error and index == 5:
            raise self.error
        return torch.zeros(4), torch.tensor(0)


def step_of(blocks, loss="cross_entropy", data=None, **options):
    trainer = weft.Trainer(blocks, loss, batch=8, run=RUN, log=None, **options)
    return list(trainer.train(Rows() if data is None else data, 3))


def raise_value(*_):
    raise ValueError("no loss today")


@pytest.mark.parametrize("workers", [0, 2])
def test_exceptions(workers):
    """What Python raises inside a step is raised by it, with type, text and traceback."""
    line = torch.nn.Linear(4, 4)
    for error in (KeyError("layer 3"), ZeroDivisionError("by zero"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as found:
            step_of([Raises(error)])
        assert str(found.value) == str(error) and "forward" in [frame.name for frame in found.traceback]
    with pytest.raises(ValueError, match="no loss today"):
        step_of(line, raise_value)
    with pytest.raises(LookupError, match="no gradient here"):
        step_of([torch.nn.Linear(4, 4), Own(fails=True)])
    with pytest.raises(OSError, match="disk gone"):
        list(weft.Trainer(torch.nn.Linear(4, 4), batch=8, run=RUN, log=None).train(Rows(OSError("disk gone")), 3, workers=workers))


# What is wrong, and words of the one line that says so.
REFUSED = [
    (lambda: weft.Trainer([], batch=8), "an empty list is no block"),
    (lambda: weft.Trainer([print], batch=8), "a builtin_function_or_method is no block"),
    (lambda: weft.Trainer(torch.nn.Sequential(), batch=8), "the nn.Sequential is empty"),
    (lambda: weft.Trainer(torch.nn.Linear(2, 2)), "batch.global"),
    (lambda: weft.Trainer(torch.nn.Linear(2, 2), batch="8"), "batch is a str; it must be a dict"),
    (lambda: weft.Trainer(torch.nn.Linear(2, 2), "crossentropy", batch=8), "loss is 'crossentropy'; it must be 'cross_entropy'"),
    (lambda: weft.Trainer(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1), batch=8), "loss has parameters"),
    (lambda: weft.Trainer(torch.nn.Linear(2, 2), batch=8, optimizer={"nam": "sgd"}), "optimizer.nam"),
    (lambda: weft.Trainer(torch.nn.Linear(2, 2), batch=8, optimizer={"lr": torch.zeros(1)}), "optimizer.lr is a Tensor"),
    (lambda: weft.Trainer(torch.nn.Linear(2, 2), batch=8, optimizer={"decay": "cosine"}), "optimizer.decay = \"cosine\" needs the run's length"),
    (lambda: weft.Trainer(torch.nn.Linear(2, 2), batch=8, run={"epochs": 3}), "is in epochs"),
    (lambda: weft.Trainer(torch.nn.Linear(2, 2), batch=8, layout={"pp": 2}), "does not divide the 1 ranks"),
    (lambda: weft.Trainer(torch.nn.Linear(2, 2), batch=10**30), "not representable in 64 bits"),
    (lambda: weft.Trainer(torch.nn.Linear(2, 2), batch={"global": 8, "micro": 3}), "does not divide"),
    (lambda: weft.Trainer(torch.nn.BatchNorm1d(4, momentum=None), batch=8), "without momentum"),
    (lambda: step_of(torch.nn.Linear(4, 4), lambda outputs, target: outputs), "must be a tensor with one number"),
    (lambda: step_of(torch.nn.Linear(4, 4), lambda outputs, target: 3.0), "must be a tensor with one number"),
    (lambda: step_of([jobs.Named()]), "returned a dict"),
    (lambda: step_of(torch.nn.Linear(4, 4), data=[torch.zeros(4)] * 9), "is a Tensor, not (inputs, target)"),
    (lambda: step_of(torch.nn.Linear(4, 4), data=[]), "the data set is empty"),
    (lambda: list(weft.Trainer(torch.nn.Linear(4, 4), batch=8, log=None).train(Rows())), "how many steps?"),
    (lambda: weft.Trainer(torch.nn.Linear(4, 4), batch=8, log=None).step(torch.zeros(4, 4), torch.zeros(4)), "4 samples"),
    (lambda: weft.Trainer(torch.nn.Linear(4, 4), batch=8, log=None).step("x", None), "inputs must be a tensor"),
    (lambda: weft.Trainer(torch.nn.Linear(4, 4), batch=8, log=None).evaluate(iter([])), "no sequence of samples"),
    (lambda: weft.Trainer(torch.nn.Linear(4, 4), batch=8, log=None).load("/nowhere"), "/nowhere"),
    (lambda: weft.spawn(jobs.many, 0), "ranks is 0"),
    (lambda: weft.load_recipe("gbt"), "there is no file 'gbt', nor a recipe"),
    (lambda: weft.chain(Reversed(), torch.zeros(2, 4)), "does more than call its children in order"),
]


class Reversed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.a(self.b(x))


@pytest.mark.parametrize("index", range(len(REFUSED)))
def test_refused(index):
    call, words = REFUSED[index]
    with pytest.raises(weft.InputError) as found:
        call()
    assert words in str(found.value) and "\n" not in str(found.value)


def test_after_a_failure():
    """A trainer that failed says so."""
    trainer = weft.Trainer([Raises(ValueError("once"))], batch=8, run=RUN, log=None)
    with pytest.raises(ValueError):
        list(trainer.train(Rows(), 3))
    with pytest.raises(weft.Error, match="failed"):
        trainer.step(torch.zeros(8, 4), torch.zeros(8, dtype=torch.int64))


def test_chain():
    """A module that calls its children in order is cut into blocks by them, under its names."""
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.head(self.body(x))

    net = Net()
    trainer = weft.Trainer(weft.chain(net, torch.zeros(2, 4)), batch=8, run=RUN, log=None)
    assert set(trainer.state_dict()) == set(net.state_dict())


def test_failures_on_ranks():
    """What one rank raises ends all, and is told; a rank that ends without a word too."""
    begin = time.monotonic()
    with pytest.raises(weft.RankError, match="LookupError: no such layer"):
        weft.spawn(jobs.fail, 2, "raise")
    with pytest.raises(weft.RankError):
        weft.spawn(jobs.fail, 2, "end")
    assert time.monotonic() - begin < 120


def test_interrupt():
    """Ctrl-C ends a training at once, on all ranks."""
    program = "import jobs, weft\nprint('begun', flush=True)\njobs.train({'layout': {'pp': weft.world_size()}}, steps=10**6)\n"
    for command in ([sys.executable], [sys.executable, "-m", "weft", "run", "-n", "2", "--", sys.executable]):
        process = subprocess.Popen([*command, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        process.stdout.readline()
        time.sleep(1.5)
        begin = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=30)
        assert process.returncode != 0 and time.monotonic() - begin < 15


def test_threads():
    """Steps in a thread of the program, while others run Python; a trainer let go in another thread."""
    done = threading.Event()
    ticks = []

    def tick():
        while not done.is_set():
            ticks.append(1)
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    ticker.start()
    box = [weft.Trainer([torch.nn.Linear(256, 256) for _ in range(4)], batch=64, run=RUN, log=None)]
    data = [(torch.randn(256), torch.tensor(i % 256)) for i in range(128)]
    trained = threading.Thread(target=lambda: list(box[0].train(data, 30)))
    trained.start()
    trained.join()
    drop = threading.Thread(target=box.clear)
    drop.start()
    drop.join()
    done.set()
    ticker.join()
    gc.collect()
    assert len(ticks) > 10


def test_threads_that_call_at_once():
    """One is in the trainer; the others are told so, or come after it."""
    inside, most, refused, ends = [], [], [], time.monotonic() + 0.3

    class Watched(torch.nn.Linear):
        def forward(self, x):
            inside.append(1)
            most.append(len(inside))
            time.sleep(1e-4)
            inside.pop()
            return super().forward(x)

    def call():
        while time.monotonic() < ends:
            try:
                trainer.predict(torch.zeros(2, 4))
            except weft.InputError as error:
                refused.append(str(error))

    trainer, interval = weft.Trainer(Watched(4, 4), batch=4, run=RUN, log=None), sys.getswitchinterval()
    threads = [threading.Thread(target=call) for _ in range(4)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert max(most) == 1 and set(refused) == {"predict() while predict() runs; a trainer is called by one thread, and not from its own modules"}


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def test_no_leak():
    """A thousand trainers, also those whose step failed, leave nothing behind."""
    def one(index):
        blocks = [torch.nn.Linear(64, 64), Raises(ValueError("x")) if index % 3 == 0 else torch.nn.Linear(64, 4)]
        trainer = weft.Trainer(blocks, batch=4, run=RUN, log=None)
        try:
            trainer.step(torch.zeros(4, 64), torch.zeros(4, dtype=torch.int64))
            trainer.step(torch.zeros(4, 64), torch.zeros(4, dtype=torch.int64))
        except (ValueError, RuntimeError):
            pass

    for index in range(100):
        one(index)
    gc.collect()
    before, threads = resident(), threading.active_count()
    for index in range(1000):
        one(index)
    gc.collect()
    grown = resident() - before
    assert grown < 20e6 and threading.active_count() == threads
    with open(FIGURES, "a", encoding="utf-8") as file:
        file.write(json.dumps({"grown MB over 1000 trainers": grown / 1e6}) + "\n")


def test_recipes():
    recipe = weft.load_recipe("gpt")
    recipe["model"].update(layers=2, width=64, heads=2, context=32)
    recipe["data"] = {"name": "tokens", "path": "none", "tokenizer": "uint16"}
    assert weft.memory(recipe, 2)["world"] == 2
    assert weft.simulate(recipe, 2, hardware="h100_node")["step_s"] > 0
    planned = weft.plan(recipe, 2, hardware="h100_node", quiet=True)
    assert planned["best"] and planned["recipe"] == "the recipe"
    with pytest.raises(weft.CommandError, match="the recipe: optimizer.lr") as found:
        weft.memory({**recipe, "optimizer": {"lr": "fast"}})
    assert found.value.status == 1


def annotated(function):
    signature = inspect.signature(function)
    assert signature.return_annotation is not signature.empty, function
    assert all(part.annotation is not part.empty for name, part in signature.parameters.items() if name != "self"), function


def test_descriptions():
    """All that is public is described and annotated, and the stub of _weft has the names that it has."""
    (seen_by_checkers,) = (part for part in ast.parse(inspect.getsource(weft)).body if isinstance(part, ast.If))
    imported = {alias.name: part.module for part in seen_by_checkers.body for alias in part.names}
    assert imported == {name: f"weft.{module}" for name, module in weft._LAZY.items()} and set(weft.__all__) == {"__version__", "cmake_prefix", *imported}
    for name in weft.__all__:
        value = getattr(weft, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, name
        if inspect.isfunction(value):
            annotated(value)
    annotated(weft.Trainer.__init__)
    for name, value in vars(weft.Trainer).items():
        if not name.startswith("_"):
            assert inspect.getdoc(value), name
            annotated(value.fget if isinstance(value, property) else value)
    with open(os.path.join(os.path.dirname(weft.__file__), "_weft.pyi"), encoding="utf-8") as file:
        stub = file.read()
    for name in (name for name in dir(_weft) if not name.startswith("_")):
        assert re.search(rf"(class|def) {name}\b", stub), name
        members = [member for member in vars(getattr(_weft, name)) if not member.startswith("_")] if inspect.isclass(getattr(_weft, name)) else []
        for member in members:
            assert re.search(rf"\b{member}\b", stub), f"{name}.{member}"


def test_sequences_run_as_they_are():
    """Modules that come again run again; hooks of the nn.Sequential itself are refused."""
    shared, act = torch.nn.Linear(4, 4), torch.nn.Tanh()
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), act, shared, act, shared)
    inputs = torch.randn(4, 4)
    with torch.no_grad():
        expected = model(inputs)
    trainer = weft.Trainer(model, "mean_squares", batch=4, run=RUN, log=None)
    assert torch.allclose(trainer.predict(inputs), expected, atol=1e-6)
    assert sorted(trainer.state_dict()) == ["0.bias", "0.weight", "2.bias", "2.weight", "4.bias", "4.weight"]
    hooked = torch.nn.Sequential(torch.nn.Linear(4, 4))
    hooked.register_forward_hook(lambda *_: None)
    with pytest.raises(weft.InputError, match="hook"):
        weft.Trainer(hooked, batch=4, run=RUN, log=None)


class Half(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.b(torch.nn.functional.dropout(self.a(x), 0.5, self.training))


def test_silent_mistakes_are_refused():
    norm = torch.nn.BatchNorm1d(4)
    with pytest.raises(weft.InputError, match="share a norm"):
        weft.Trainer([norm, torch.nn.Linear(4, 4), norm], batch=4, run=RUN, log=None)
    with pytest.raises(weft.InputError, match="training"):
        weft.chain(Half(), torch.randn(4, 4))
    with pytest.raises(weft.InputError, match="one shape"):
        weft.Trainer(torch.nn.Linear(4, 1), "mean_squares", batch=4, run=RUN, log=None).step(torch.randn(4, 4), torch.randn(4))


def test_data_may_change_between_steps(tmp_path):
    """Each train() reads its own data, at the step that the trainer is at."""
    trainer = weft.Trainer(torch.nn.Linear(4, 1), "mean_squares", batch=4, run=RUN, log=None)
    ones, tens = ([(torch.ones(4), torch.full((1,), value)) for _ in range(8)] for value in (1.0, 10.0))
    a, b = trainer.train(ones, 4), trainer.train(tens, 4)
    losses = [next(data).loss for data in (a, b, a, b)]
    assert max(losses[0::2]) < min(losses[1::2])
    trainer.save(tmp_path / "kept")
    assert trainer.load(tmp_path / "kept") == 4
    assert next(a).step == 5
    with pytest.raises(weft.InputError, match="empty"):
        next(trainer.train([], 1))
    assert next(a).step == 6


def test_accuracy_of_classes_alone():
    data = [(torch.randn(4), torch.tensor(1)) for _ in range(8)]
    assert weft.Trainer(torch.nn.Linear(4, 4), batch=4, run=RUN, log=None).evaluate(data).accuracy is not None
    assert weft.Trainer(torch.nn.Linear(4, 4), torch.nn.functional.cross_entropy, batch=4, run=RUN, log=None).evaluate(data).accuracy is None


def test_calls_from_a_block_are_refused():
    class Calls(torch.nn.Linear):
        def forward(self, x):
            if hasattr(self, "trainer"):
                self.trainer.predict(x)
            return super().forward(x)

    block = Calls(4, 4)
    trainer = weft.Trainer(block, batch=4, run=RUN, log=None)
    object.__setattr__(block, "trainer", trainer)
    with pytest.raises(weft.InputError, match=r"predict\(\) while step\(\) runs"):
        trainer.step(torch.randn(4, 4), torch.zeros(4, dtype=torch.long))


def test_buffers(two, tmp_path):
    """Values that forward replaces are trained and saved, those of caches and buffers that are not persistent are not; blocks share constants."""
    losses, state = jobs.buffers({}, tmp_path / "saved")
    names = {"inner.weight", "inner.bias", "mask", "running_mean", "num_batches_tracked"}
    assert set(state) == {"1.weight", "1.bias"} | {f"{block}.{name}" for block in (0, 2) for name in names}
    assert torch.allclose(state["0.running_mean"], torch.full((4,), 1.125)) and int(state["0.num_batches_tracked"]) == 2
    for found, values in (rank[4] for rank in two[0]):
        assert found == pytest.approx(losses, abs=1e-6) and set(values) == set(state)  # rank 0's constants everywhere
        assert all(torch.allclose(values[name], value, atol=1e-6) for name, value in state.items())
    mask = torch.ones(4)
    assert Described(blocks_of([jobs.Counts(mask), jobs.Counts(mask)])).aliases == {}


class Replaces(torch.nn.Module):
    """A block whose forward replaces one of its tensors."""

    def __init__(self, name, value):
        super().__init__()
        self.inner, self.name, self.value = torch.nn.Linear(4, 4), name, value
        self.weight = torch.nn.Parameter(torch.zeros(4))
        self.register_buffer("constant", torch.zeros(4))
        self.register_buffer("running_mean", torch.zeros(4))
        self.register_buffer("later", None)

    def forward(self, x):
        setattr(self, self.name, self.value)
        return self.inner(x) + self.weight


@pytest.mark.parametrize(("name", "value", "words"), [
    ("constant", torch.ones(4), "changed its buffer '0.constant', which is taken for constant"),
    ("constant", torch.ones(3), "its forward replaced 'constant'"),
    ("running_mean", torch.ones(4, dtype=torch.float64), "its forward replaced 'running_mean'"),
    ("running_mean", None, "its forward replaced 'running_mean'"),
    ("later", torch.ones(4), "its forward replaced 'later'"),
    ("weight", torch.nn.Parameter(torch.ones(4)), "its forward replaced 'weight'"),
])
def test_replaced_tensors_are_refused(name, value, words):
    with pytest.raises(weft.InputError, match=re.escape(words)):
        step_of([Replaces(name, value)])


def test_cycles_are_freed():
    """A trainer is collected, though what it calls refers to it."""
    def one(fails):
        class Data(Rows):
            pass

        block, data, kept = Raises(ValueError("x")) if fails == "block" else torch.nn.Linear(4, 4), Data(KeyError("y") if fails == "data" else None), jobs.Counter()
        trainer = weft.Trainer(block, lambda outputs, target: F.cross_entropy(outputs, target) * bool(trainer), batch=8, run=RUN,
                               log=lambda line: trainer)
        trainer.keep("kept", kept)
        block.trainer_of = data.trainer_of = kept.trainer_of = trainer
        for workers in (2,) if fails == "data" else (0, 2):  # an error of a thread is kept
            try:
                list(trainer.train(data, 1, workers=workers))
            except (ValueError, KeyError, weft.Error):
                pass
        return weakref.ref(trainer), weakref.ref(block)

    found = [one(fails) for fails in ("", "block", "data")]
    gc.collect()
    assert [reference() for pair in found for reference in pair] == [None] * 6


def test_rates_without_a_length():
    """Warm-up and steps of the rate need no run's length."""
    def rates(**optimizer):
        trainer = weft.Trainer(torch.nn.Linear(4, 4), batch=8, optimizer={"lr": 1.0, **optimizer}, run=RUN, log=None)
        steps = list(trainer.train(Rows(), 4))
        assert repr(steps[3]).startswith("Step(step=4, samples=32, loss=")
        return [step.learning_rate for step in steps]

    assert rates(warmup=4) == [0.25, 0.5, 0.75, 1.0] == rates(warmup="32 samples")
    assert rates(decay="step", decay_every=2, decay_factor=0.5) == [1.0, 1.0, 0.5, 0.5]


def test_keys_without_effect():
    """Those of a recipe are named, and every key of [run] is read or refused."""
    lines = []
    recipe = {**weft.load_recipe("gpt"), "run": {"steps": 99, "folder": "x", "threads": 1}, "batch": {"global": 4}}
    weft.Trainer(torch.nn.Linear(4, 4), recipe=recipe, log=lines.append)
    assert lines == ["not read from the recipe: [model], [data], run.folder"]
    page = (pathlib.Path(__file__).parent / "recipes.md").read_text(encoding="utf-8")
    read = {"steps", "epochs", "samples", "tokens", "evaluate", "seed", "threads", "reproducible_slots", "reproducible_tp", "device", "graph", "timeout_s",
            "name", "audit_every"}
    assert {f"run.{key}" for key in read} == set(re.findall(r"(?m)^\| `(run\.\w+)`", page)) - set(UNREAD)


def test_spawn_takes_what_can_be_pickled(two):
    """Tensors, also those that need a gradient or share memory, modules and functions, to ranks and back."""
    for rank, (values, own) in enumerate(results[5] for results in two[0]):
        assert all(map(torch.equal, values[:5], PICKLED[:5])) and values[2].requires_grad and own.tolist() == [rank] * 2
        assert torch.equal(values[5].weight, PICKLED[5].weight) and values[6] is mean_loss


def test_interrupt_while_data_is_slow():
    """Ctrl-C ends a training that waits for a sample, in a thread or not."""
    code = """
import sys, time, torch, weft
class Slow:
    def __len__(self):
        return 64
    def __getitem__(self, i):
        print("reading", flush=True)
        time.sleep(60)
trainer = weft.Trainer(torch.nn.Linear(4, 4), batch=4, run={"threads": 1}, log=None)
for step in trainer.train(Slow(), 2, workers=int(sys.argv[1])): pass
"""
    begun = [subprocess.Popen([sys.executable, "-c", code, workers], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for workers in "02"]
    for process in begun:
        process.stdout.readline()
        time.sleep(0.3)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert "KeyboardInterrupt" in errors and process.returncode == -signal.SIGINT and time.monotonic() - begin < 5


@pytest.mark.parametrize(("workers", "daemon"), [(2, False), (0, True), (2, True)])
def test_exit_while_a_thread_reads(workers, daemon):
    code = """
import sys, threading, time, torch, weft
workers, daemon = map(int, sys.argv[1:])
begun = threading.Event()
class Slow(list):
    def __getitem__(self, i):
        begun.set()
        time.sleep(0.05)
        return torch.ones(4), torch.tensor(0)
trainer = weft.Trainer(torch.nn.Linear(4, 4), batch=4, run={"threads": 1}, log=None)
def train(steps):
    for step in trainer.train(Slow(range(64)), steps, workers=workers): pass
threading.Thread(target=train, args=(1000,), daemon=True).start() if daemon else train(2)
begun.wait()
"""
    done = subprocess.run([sys.executable, "-c", code, str(workers), str(int(daemon))], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "MALLOC_PERTURB_": "165"})
    assert done.returncode == 0, done.stderr
