"""What the tests of `import weft` run on spawned ranks."""
import math
import os

import torch
import torch.nn.functional as F

import weft

WIDTH, WORDS, CONTEXT = 16, 32, 8


class Ends(torch.nn.Module):
    """Embeddings of a GPT."""

    def __init__(self):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(WORDS, WIDTH), torch.nn.Embedding(CONTEXT, WIDTH)

    def forward(self, ids):
        return self.words(ids) + self.places(torch.arange(ids.shape[1]))


class Layer(torch.nn.Module):
    """A transformer's layer, with attention by hand."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.Linear(2 * WIDTH, WIDTH)
        self.dropout = torch.nn.Dropout(dropout)
        self.register_buffer("mask", torch.full((CONTEXT, CONTEXT), -math.inf).triu(1))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).split(WIDTH, dim=2)
        weights = (q @ k.transpose(1, 2) / math.sqrt(WIDTH) + self.mask).softmax(2)
        x = x + self.dropout(self.out(weights @ v))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class Head(torch.nn.Module):
    """A norm, and logits by `words`, which may be the embedding's weight."""

    def __init__(self, words):
        super().__init__()
        self.norm, self.words = torch.nn.LayerNorm(WIDTH), words

    def forward(self, x):
        return F.linear(self.norm(x), self.words.weight)


def gpt(layers=2, tied=True, dropout=0.0):
    """Blocks of a small GPT, the same on each call."""
    torch.manual_seed(7)
    ends = Ends()
    return [ends, *(Layer(dropout) for _ in range(layers)), Head(ends.words if tied else torch.nn.Embedding(WORDS, WIDTH))]


def texts(count=24):
    """Samples: token ids and the next ones."""
    ids = torch.randint(0, WORDS, (count, CONTEXT + 1), generator=torch.Generator().manual_seed(3))
    return [(row[:-1], row[1:]) for row in ids]


def tokens_loss(logits, target):
    """Cross entropy, as (sum, count)."""
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="sum"), target.numel()


def train(options, steps=4, make=gpt, loss="cross_entropy", data=None, **more):
    """Losses of some steps, and the weights then."""
    trainer = weft.Trainer(make(), loss, batch=8, run={"threads": 1, "timeout_s": 60, **options.pop("run", {})}, log=None, **options)
    losses = [step.loss for step in trainer.train(data or texts(), steps, **more)]
    return losses, trainer.state_dict()


def many(jobs):
    """Several trainings in the same processes."""
    return [train(**job) for job in jobs]


def all_of(calls):
    """What each call (function, arguments...) returns."""
    return [function(*arguments) for function, *arguments in calls]


def save(folder, layout):
    """Trains four steps with a checkpoint after two; returns all losses."""
    trainer = weft.Trainer(gpt(dropout=0.1), batch=8, layout=layout, run={"threads": 1, "reproducible_slots": 4}, log=None)
    counter = Counter()
    trainer.keep("counter", counter)
    losses = []
    for step in trainer.train(texts(), 4):
        losses.append(step.loss)
        counter.value += 1
        if step.step == 2:
            trainer.save(folder)
    return losses


def load(folder, layout):
    """The losses of the two steps after the checkpoint."""
    trainer = weft.Trainer(gpt(dropout=0.1), batch=8, layout=layout, run={"threads": 1, "reproducible_slots": 4}, log=None)
    counter = Counter()
    trainer.keep("counter", counter)
    assert trainer.load(folder) == 2 and counter.value == 2
    return [step.loss for step in trainer.train(texts(), 2)]


class Named(torch.nn.Module):
    """A block that returns a dict."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x):
        return {"x": self.inner(x)}


class Counter:
    """An object with state of its own."""

    value = 0

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]


def shares():
    """Each rank's share by hand, and what it evaluates and predicts."""
    trainer = weft.Trainer(gpt(), batch=8, run={"threads": 1}, log=None)
    data = texts()
    mine = [data[index] for index in trainer.share]
    inputs, target = torch.stack([row[0] for row in mine]), torch.stack([row[1] for row in mine])
    step = trainer.step(inputs, target)
    found = trainer.evaluate(data)
    batches = iter(torch.utils.data.DataLoader(data, batch_size=len(trainer.share)))
    after = [more.loss for more in trainer.train(batches, 2)]
    assert (weft.rank(), weft.world_size()) == (trainer.rank, trainer.world_size)
    all_outputs, alone = trainer.predict(inputs, gathered=True), trainer.predict(torch.tensor([]))
    first = trainer.predict(inputs if trainer.rank == 0 else torch.tensor([]), gathered=True)  # ids, though this is float32
    assert alone.shape == (0, 8, 32) and torch.equal(first, all_outputs[:len(inputs)])
    return trainer.rank, list(trainer.share), step.loss, found.loss, found.targets, all_outputs.shape, len(after)


class Counts(torch.nn.Module):
    """A linear layer with buffers: `forward` replaces statistic and count, and makes a cache; a constant of each rank's own."""

    def __init__(self, mask):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.register_buffer("mask", mask)  # of several blocks
        self.register_buffer("own", torch.full((4,), 1.0 + weft.rank()), persistent=False)
        self.register_buffer("running_mean", torch.zeros(4))
        self.register_buffer("running_peak", torch.zeros(4), persistent=False)
        self.register_buffer("num_batches_tracked", torch.tensor(0))
        self.register_buffer("cache", None, persistent=False)

    def forward(self, x):
        if self.training:
            self.running_mean = 0.5 * self.running_mean + 0.5 * x.detach().mean(0)
            self.num_batches_tracked = self.num_batches_tracked + 1
        self.cache = torch.arange(len(x))
        return self.inner(x * self.mask * self.own)


def buffers(layout, folder):
    """The state after two steps, which a checkpoint has too, and losses."""
    torch.manual_seed(5)
    mask = torch.tensor([1.0, 0.0, 1.0, 1.0])
    made = lambda: weft.Trainer([Counts(mask), torch.nn.Linear(4, 4), Counts(mask)], "mean_squares", batch=4, layout=layout, run={"threads": 1}, log=None)  # noqa: E731
    trainer = made()
    data = [(torch.full((4,), float(i % 4)), torch.ones(4)) for i in range(8)]
    losses = [step.loss for step in trainer.train(data, 2, shuffle=False)]
    trainer.save(folder, replace=True)
    again = weft.Trainer([Counts(torch.zeros(4)), torch.nn.Linear(4, 4), Counts(torch.zeros(4))], "mean_squares", batch=4, layout=layout,
                         run={"threads": 1}, log=None)
    again.load(folder)
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in trainer.state_dict().items())
    return losses, trainer.state_dict()


def pickled(*values):
    """What a rank was given, and a tensor of its own."""
    return values, torch.full((2,), float(weft.rank()))


def fail(which):
    """An error in a layer of the second of two stages."""
    blocks = gpt()

    class Broken(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(WIDTH))
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            if self.calls == 3:
                if which == "end":
                    os._exit(7)
                raise LookupError("no such layer")
            return x + self.weight

    blocks[2] = Broken()
    trainer = weft.Trainer(blocks, batch=8, layout={"pp": 2}, run={"threads": 1, "timeout_s": 20}, log=None)
    for _ in trainer.train(texts(), 5):
        pass
