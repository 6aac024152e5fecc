"""The trainings that tools/gpu_check compares between a GPU and the CPU, a row each, and the images of some."""
import random

# Largest relative differences of a loss: float32; rounded types and dropout; batch normalisation over few images, which amplifies them.
EXACT, ROUNDED, NORMALISED = 1e-5, 5e-3, 5e-2
ROWS = [  # name, recipe, settings, largest difference, options
    ("gpt", "gpt", [], EXACT),
    ("llama", "llama", [], EXACT),
    ("gpt, micro-batches", "gpt", ["batch.micro=4"], EXACT),
    ("gpt, slots", "gpt", ["run.reproducible_slots=4"], EXACT),
    ("gpt, slots, noise scale", "gpt", ["run.reproducible_slots=4", "run.noise_scale=true"], EXACT),
    ("gpt, recompute blocks", "gpt", ["layout.recompute=blocks"], EXACT),
    ("gpt, recompute attention", "gpt", ["layout.recompute=attention"], EXACT),
    ("gpt, offload activations", "gpt", ["layout.recompute=blocks", "layout.offload_activations=host"], EXACT),
    ("gpt, offload to host", "gpt", ["layout.offload_optimizer=host"], EXACT),
    ("gpt, offload to disk", "gpt", ["layout.offload_optimizer=disk"], EXACT),
    ("gpt, muon", "gpt", ["optimizer.name=muon"], EXACT),
    ("gpt, lamb", "gpt", ["optimizer.name=lamb"], EXACT),
    ("gpt, average", "gpt", ["optimizer.ema=0.9"], EXACT),
    ("gpt, dropout", "gpt", ["model.dropout=0.1"], ROUNDED),
    ("gpt, captured", "gpt", ["run.graph=true"], EXACT),
    ("gpt, captured, dropout", "gpt", ["run.graph=true", "model.dropout=0.1"], ROUNDED),
    ("llama, captured, bf16", "llama", ["run.graph=true", "layout.precision=bf16"], ROUNDED),
    ("gpt, bf16", "gpt", ["layout.precision=bf16"], ROUNDED),
    ("gpt, fp16", "gpt", ["layout.precision=fp16"], ROUNDED),
    ("llama, bf16", "llama", ["layout.precision=bf16"], ROUNDED),
    ("resnet", "cifar10", [], NORMALISED),
    ("resnet, lars", "cifar10", ["optimizer.name=lars", "optimizer.lr=0.1"], NORMALISED),
    ("resnet, bf16", "cifar10", ["layout.precision=bf16"], NORMALISED),
    # Ranks that share the GPU.
    ("gpt, 2 ranks", "gpt", ["layout.backend=shm"], EXACT, "-n", "2"),
    ("gpt, 2 ranks, zero-3", "gpt", ["layout.backend=shm", "layout.shard_level=parameters"], EXACT, "-n", "2"),
    ("gpt, 2 ranks, pipeline", "gpt", ["layout.backend=gloo", "layout.pp=2"], EXACT, "-n", "2"),
]


def write_images(folder, count):
    """Random images as CIFAR-10's files, `count` in each."""
    folder.mkdir()
    source = random.Random(0)
    for name in [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]:
        images = bytearray(source.randbytes(count * 3073))
        images[::3073] = bytes(index % 10 for index in range(count))
        (folder / name).write_bytes(images)
