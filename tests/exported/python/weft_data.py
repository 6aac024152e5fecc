"""Writes data that weft reads, and says which samples a run of weft takes in which order (weft/data/sampler.h, tokens/windows.h)."""
import struct

import numpy
import torch

MASK = (1 << 64) - 1
MEAN, DEVIATION = 0.2860, 0.3530  # by which weft normalises data.name = "images"


def splitmix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def sample_at(position, size, seed):
    """The sample at a position of the run."""
    if size == 1:
        return 0
    half = 1
    while 1 << (2 * half) < size:
        half += 1
    key, value = splitmix64(splitmix64(seed) ^ (position // size)), position % size
    while True:
        left, right = value >> half, value & ((1 << half) - 1)
        for step in range(8):
            left, right = right, left ^ (splitmix64(key ^ (step << 56) ^ right) & ((1 << half) - 1))
        value = (left << half) | right
        if value < size:
            return value


class Images:
    """An IDX folder of random images, all of which are also for evaluation."""

    def __init__(self, folder, count, size, classes):
        generator = torch.Generator().manual_seed(3)
        self.pixels = torch.randint(256, (count, size, size), generator=generator, dtype=torch.uint8)
        self.labels = torch.randint(classes, (count,), generator=generator)
        folder.mkdir()
        for part in ("train", "t10k"):
            (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, count, size, size) + self.pixels.numpy().tobytes())
            (folder / f"{part}-labels-idx1-ubyte").write_bytes(
                struct.pack(">II", 2049, count) + self.labels.to(torch.uint8).numpy().tobytes())

    def all(self):
        return self.inputs(slice(None)), self.labels

    def inputs(self, chosen):
        return (self.pixels[chosen].float().unsqueeze(1) / 255 - MEAN) / DEVIATION

    def batch(self, step, samples, seed):
        chosen = [sample_at(step * samples + i, len(self.labels), seed) for i in range(samples)]
        return self.inputs(chosen), self.labels[chosen]


class Tokens:
    """A file of uint16 ids, whose second half is for evaluation."""

    def __init__(self, path, count, context, vocabulary):
        self.ids = torch.randint(vocabulary, (count,), generator=torch.Generator().manual_seed(4))
        path.write_bytes(self.ids.to(torch.int16).numpy().tobytes())
        self.context, self.length = context, count // 2
        self.windows = max(1, (self.length - 1) // context - 1)

    def batch(self, step, samples, seed):
        rows = []
        for position in range(step * samples, (step + 1) * samples):
            epoch, choices = position // self.windows, self.length - self.windows * self.context
            start = sample_at(position, self.windows, seed) * self.context + sample_at(epoch * choices, choices, seed)
            rows.append(self.ids[start:start + self.context + 1])
        return torch.stack(rows)[:, :-1], torch.stack(rows)[:, 1:]


class Arrays:
    """A folder of NumPy files, all of whose samples are for training; of several inputs each has its name."""

    def __init__(self, folder, inputs, targets):
        self.inputs, self.targets = inputs, targets
        folder.mkdir()
        for name, values in {**(inputs if isinstance(inputs, dict) else {"inputs": inputs}), "targets": targets}.items():
            numpy.save(folder / f"{name}.npy", values.numpy())

    def batch(self, step, samples, seed):
        chosen = [sample_at(step * samples + i, len(self.targets), seed) for i in range(samples)]
        inputs = {name: values[chosen] for name, values in self.inputs.items()} if isinstance(self.inputs, dict) else self.inputs[chosen]
        return inputs, self.targets[chosen]
