"""Times forward and backward of ResNets in four ways, by turns: contiguous or channels last, float32 or bfloat16 (autocast). One
thread. Prints a line of JSON: milliseconds of each turn."""
import argparse
import json
import time

import torch
import torch.nn.functional as F
import torchvision

from torch_resnet import resnet

SIZES = {20: (64, 32), 18: (32, 64), 50: (4, 224)}  # depth: images per step, image side in pixels


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--depth", type=int, choices=SIZES, required=True)
    parser.add_argument("--turns", type=int, default=5)
    a = parser.parse_args()
    torch.set_num_threads(1)
    batch, size = SIZES[a.depth]
    ways = {}
    for name, order in (("contiguous", torch.contiguous_format), ("channels last", torch.channels_last)):
        torch.manual_seed(0)
        model = resnet(20, 10) if a.depth == 20 else getattr(torchvision.models, f"resnet{a.depth}")(num_classes=10)
        images = torch.randn(batch, 3, size, size).contiguous(memory_format=order)
        for dtype in ("fp32", "bf16"):
            ways[f"{name}, {dtype}"] = (model.to(memory_format=order), images, dtype == "bf16")
    labels = torch.arange(batch) % 10
    times = {name: [] for name in ways}
    for turn in range(a.turns + 1):
        for name, (model, images, narrow) in ways.items():
            start = time.perf_counter()
            with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
                loss = F.cross_entropy(model(images), labels)
            loss.backward()
            if turn:  # the first is not counted
                times[name].append(1e3 * (time.perf_counter() - start))
            model.zero_grad(set_to_none=True)
    print(json.dumps(times))


main()
