"""The GPT of the shared folder's peers/torch_gpt.py as modules of torch.nn, trained by weft's Python module.

Each rank prints one JSON line, in the form of `weft train --summary`. --batch: samples of one replica and step, in --micro micro-batches.
--export FILE.pt2: writes the model there instead, for `weft train`.
Run several ranks with: torchrun --nproc-per-node N weft_gpt.py ...
"""
import argparse
import json
import os
import resource
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Embeddings(nn.Module):
    def __init__(self, vocabulary, context, width):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)

    def forward(self, tokens):
        return self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.head_width = width // heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (-1, self.head_width)).transpose(1, 2) for part in self.qkv(self.ln1(x)).chunk(3, 2))
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class Logits(nn.Module):
    def __init__(self, width, vocabulary):
        super().__init__()
        self.lnf, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, x):
        return self.head(self.lnf(x))


def model(a):
    blocks = [Block(a.dim, a.heads) for _ in range(a.layers)]
    return nn.Sequential(Embeddings(256, a.ctx, a.dim), *blocks, Logits(a.dim, 256))


def loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def train(a):
    import weft

    layout = {"dp": a.replicas, **json.loads(a.layout)}
    trainer = weft.Trainer(model(a), loss, batch={"global": a.batch * a.replicas, "micro": a.batch // a.micro}, layout=layout,
                           optimizer={"name": "adamw", "lr": 3e-4, "weight_decay": 0.01}, run={"threads": 1}, log=None)
    text = torch.frombuffer(bytearray(open(a.text, "rb").read()), dtype=torch.uint8)
    generator = torch.Generator().manual_seed(1)
    ends = [time.perf_counter()]
    for _ in range(a.warmup + a.steps):
        at = torch.randint(len(text) - a.ctx - 1, (a.batch * a.replicas,), generator=generator)[list(trainer.share)]
        samples = torch.stack([text[first:first + a.ctx + 1] for first in at]).long()
        last = trainer.step(samples[:, :-1].contiguous(), samples[:, 1:].contiguous()).loss
        ends.append(time.perf_counter())
    rate = a.batch * a.replicas * a.steps / (ends[-1] - ends[a.warmup])
    report = json.dumps({
        "weft": trainer.rank, "world": trainer.world_size, "threads_per_rank": torch.get_num_threads(), "steps": trainer.steps_done,
        "layout": {"micro_batch": a.batch // a.micro, "micro_batches_per_rank": a.micro}, "samples_per_s": rate,
        "tokens_per_s": rate * a.ctx, "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "first_step_s": ends[1] - ends[0], "loss": last,
        "parameters": sum(weight.numel() for weight in trainer.state_dict().values())})
    sys.stdout.write(report + "\n")  # in one call: the ranks' lines must not interleave
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in dict(text="", ctx=256, dim=384, heads=6, layers=6, batch=8, micro=1, replicas=1, steps=10, warmup=2,
                            layout="{}", export="").items():
        parser.add_argument("--" + name, type=type(value), default=value)
    a = parser.parse_args()
    torch.set_num_threads(1)
    if a.export:
        tokens = torch.zeros(2, a.ctx, dtype=torch.long)
        torch.export.save(torch.export.export(model(a), (tokens,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)), a.export)
    else:
        train(a)


main()
