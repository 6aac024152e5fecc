"""ResNets in plain PyTorch: DistributedDataParallel over Gloo, on CPUs. Run by torchrun.

--depth 20: He et al. 2016, section 4.2 (shortcuts without weights); 18: torchvision's resnet18. --images is an IDX folder of grey
images, held in memory as bytes; a batch repeats them in three channels. Rank 0 prints a line of JSON: images per second over the
timed steps, its peak resident MB, the last loss.
"""
import argparse
import json
import os
import pathlib
import resource
import time

import numpy
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

DEPTHS = {20: (True, (3, 3, 3)), 18: (False, (2, 2, 2, 2))}  # small images? blocks of each stage


class Block(nn.Module):
    def __init__(self, channels, width, stride, small):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.added, self.downsample = width - channels, None
        if self.added and not small:
            self.downsample = nn.Sequential(nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        if self.downsample is not None:
            x = self.downsample(x)
        elif self.added:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.added // 2, self.added - self.added // 2))
        y += x
        return self.relu(y)


def resnet(depth, classes):
    small, blocks = DEPTHS[depth]
    width = channels = 16 if small else 64
    layers = [nn.Conv2d(3, width, 3 if small else 7, 1 if small else 2, 1 if small else 3, bias=False), nn.BatchNorm2d(width),
              nn.ReLU(inplace=True)] + ([] if small else [nn.MaxPool2d(3, 2, 1)])
    for stage, count in enumerate(blocks):
        for i in range(count):
            layers.append(Block(channels, width, 2 if stage and i == 0 else 1, small))
            channels = width
        width *= 2
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model


def idx(path):
    data = path.read_bytes()
    sizes = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(data[3])]
    return torch.from_numpy(numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * len(sizes)).copy()).view(sizes)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=pathlib.Path, required=True)
    parser.add_argument("--depth", type=int, choices=DEPTHS, default=20)
    parser.add_argument("--batch", type=int, default=64, help="images per rank and step")
    parser.add_argument("--steps", type=int, default=10, help="timed steps")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--channels-last", action="store_true", help="torch.channels_last weights and images")
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    layout = torch.channels_last if a.channels_last else torch.contiguous_format
    images, labels = idx(a.images / "train-images-idx3-ubyte"), idx(a.images / "train-labels-idx1-ubyte").long()
    model = nn.parallel.DistributedDataParallel(resnet(a.depth, 10).to(memory_format=layout), gradient_as_bucket_view=True)
    matrices, vectors = ([p for p in model.parameters() if (p.dim() > 1) == wanted] for wanted in (True, False))
    optimizer = torch.optim.SGD([{"params": matrices, "weight_decay": 5e-4}, {"params": vectors, "weight_decay": 0.0}],
                                lr=0.1, momentum=0.9, nesterov=True, fused=True)
    order = torch.Generator().manual_seed(1)
    for step in range(a.warmup + a.steps):
        if step == a.warmup:
            dist.barrier()
            start = time.perf_counter()
        chosen = torch.randint(len(images), (a.batch * world,), generator=order)[rank * a.batch:(rank + 1) * a.batch]
        x = images[chosen].float().div_(255).sub_(0.286).div_(0.353).unsqueeze(1).expand(-1, 3, -1, -1)
        x = x.contiguous(memory_format=layout)
        with torch.autocast("cpu", torch.bfloat16, enabled=a.dtype == "bf16"):
            loss = F.cross_entropy(model(x), labels[chosen])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    dist.barrier()
    seconds = time.perf_counter() - start
    if rank == 0:
        print(json.dumps({
            "peer": f"pytorch {torch.__version__}", "world": world, "threads": torch.get_num_threads(),
            "params": sum(p.numel() for p in model.parameters()), "images_per_s": a.batch * world * a.steps / seconds,
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, "loss": loss.item()}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
