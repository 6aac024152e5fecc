"""Runs models both in PyTorch alone and in weft: what the tests and the table of models share."""
import json
import os
import pathlib
import re
import subprocess
import tempfile

import torch
import torch.nn.functional as F

import nets

WEFT = pathlib.Path(os.environ["WEFT_BUILD"]) / "weft"
PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "exported.md"
GLOBAL, MICRO, SEED = 16, 4, 1
TOLERANCE = 1e-6  # of a loss
# Layouts that sum in another order than one rank does.
SPLIT_LAYOUTS = {
    "tp 2": (2, ["layout.tp=2"]),
    "tp 4": (4, ["layout.tp=4"]),
    "tp 2 x pp 2": (4, ["layout.tp=2", "layout.pp=2"]),
    "tp 2 x ZeRO-3, recompute": (4, ["layout.tp=2", "layout.shard=2", "layout.shard_level=parameters", "layout.recompute=blocks"]),
}
LAYOUTS = {
    "one": (1, []),
    "dp 2": (2, ["layout.dp=2"]),
    "ZeRO-3": (2, ["layout.shard=2", "layout.shard_level=parameters"]),
    "pp 2": (2, ["layout.pp=2"]),
    "pp 2 x dp 2": (4, ["layout.pp=2", "layout.dp=2"]),
    "ZeRO-3, recompute, offload": (2, ["layout.shard=2", "layout.shard_level=parameters", "layout.recompute=blocks",
                                       "layout.offload_optimizer=host", "layout.offload_activations=host"]),
}


def export_function(name="export"):
    """A function that the page shows."""
    scope = {}
    exec(re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1], scope)
    return scope[name]


def weft(*arguments, status=0):
    done = subprocess.run([WEFT, *map(str, arguments)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "LD_LIBRARY_PATH": ""})
    assert done.returncode == status, f"weft {' '.join(map(str, arguments))}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout + done.stderr


def recipe(folder, name, path, tokens, steps, rate, size=nets.SIZE):
    """Writes the recipe of a model of tokens, images or arrays (`tokens` is their folder's name)."""
    if isinstance(tokens, str):
        shape, data = 'inputs = "arrays"', f'name = "arrays", path = "{folder}/{tokens}", evaluation_path = "{folder}/{tokens}"'
    elif tokens:
        shape = f'inputs = "tokens", context = {nets.CONTEXT}, vocabulary = {nets.VOCABULARY}'
        data = f'name = "tokens", path = "{folder}/ids", tokenizer = "uint16", evaluation = 0.5'
    else:
        shape, data = f"channels = 1, image_size = {size}, classes = {nets.CLASSES}", f'name = "images", path = "{folder}/images"'
    file = folder / f"{name}.toml"
    file.write_text(f'model = {{ name = "exported", path = "{path}", {shape} }}\ndata = {{ {data} }}\n'
                    f"batch = {{ global = {GLOBAL}, micro = {MICRO} }}\n"
                    f'optimizer = {{ name = "sgd", lr = {rate}, momentum = 0.0, weight_decay = 0.0 }}\n'
                    f"run = {{ steps = {steps}, seed = {SEED}, reproducible_slots = 4, log_every = 1 }}\n")
    return file


def train(file, layout, *more):
    """Trains a recipe in a layout; returns the losses of its steps and, if it has any, of its evaluations."""
    ranks, settings = {**LAYOUTS, **SPLIT_LAYOUTS}[layout]
    run = pathlib.Path(tempfile.mkdtemp(dir=file.parent))
    sets = [word for setting in (*settings, *more, f"run.folder={run}") for word in ("--set", setting)]
    weft("train", file, "-n", ranks, *sets)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return tuple([row["loss"] for row in rows if ("evaluation" in row) == is_evaluation] for is_evaluation in (False, True))


def loss_of(model, inputs, targets, of):
    logits = model(**inputs) if isinstance(inputs, dict) else model(inputs)
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="sum") / of


def alone(model, batches, rate, micro=MICRO):
    """Losses of plain PyTorch, with the same micro-batches."""
    optimizer = torch.optim.SGD(model.train().parameters(), lr=rate)
    losses = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        total = 0.0
        for begin in range(0, len(targets), micro):
            part = slice(begin, begin + micro)
            own = {name: values[part] for name, values in inputs.items()} if isinstance(inputs, dict) else inputs[part]
            loss = loss_of(model, own, targets[part], targets.numel())
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


def difference(losses, expected):
    assert len(losses) == len(expected), (losses, expected)
    return max(abs(a - b) / abs(b) for a, b in zip(losses, expected))
