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
    return trainer.rank, list(trainer.share), step.loss, found.loss, found.targets, trainer.predict(inputs, gathered=True).shape, len(after)


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
