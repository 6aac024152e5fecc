"""BatchNorm over ranks in PyTorch, on CPUs. Run by torchrun; rank 0 prints a line of JSON.

torch.nn.SyncBatchNorm takes no CPU tensors (its forward says so). In its place is the module that is customary where it does not
serve: means of x and x^2 by torch.distributed.nn.functional.all_reduce, which autograd goes through, and one affine map.
--check FOLDER instead, without torchrun: the largest difference of the tensors that bench/batch_norm.cpp left there from
torch.nn.BatchNorm2d over the samples of all ranks, in float64, as a part of each tensor's largest value.
"""
import argparse
import json
import pathlib
import time

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.nn.functional import all_reduce


class BatchNormOverRanks(nn.BatchNorm2d):
    def forward(self, x):
        channels = x.shape[1]
        sums = all_reduce(torch.cat([x.mean((0, 2, 3)), (x * x).mean((0, 2, 3))])) / dist.get_world_size()
        mean, square = sums.split(channels)
        var = square - mean * mean
        with torch.no_grad():
            self.running_mean += self.momentum * (mean - self.running_mean)
            self.running_var += self.momentum * (var - self.running_var)
        scale = self.weight * torch.rsqrt(var + self.eps)
        return x * scale.view(1, -1, 1, 1) + (self.bias - mean * scale).view(1, -1, 1, 1)


def refuses_cpu():
    try:
        nn.SyncBatchNorm(3)(torch.zeros(2, 3, 4, 4))
    except (ValueError, RuntimeError):
        return True
    return False


def measure(a):
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    norm = BatchNormOverRanks(a.channels) if refuses_cpu() else nn.SyncBatchNorm(a.channels)
    x = torch.randn(a.samples, a.channels, a.size, a.size, requires_grad=True)
    dy = torch.randn(x.shape)
    seconds = []
    for _ in range(a.rounds):
        dist.barrier()
        start = time.perf_counter()
        norm(x).backward(dy)
        seconds.append(time.perf_counter() - start)
        x.grad = norm.weight.grad = norm.bias.grad = None
    if dist.get_rank() == 0:
        print(json.dumps({"ms": 1e3 * sorted(seconds)[len(seconds) // 2], "ranks": dist.get_world_size(),
                          "module": type(norm).__name__}), flush=True)
    dist.destroy_process_group()


def check(a):
    ranks = range(len(list(a.check.glob("*-x.f32"))))
    shape = (-1, a.channels, a.size, a.size)

    def read(name, join=torch.cat):
        return join([torch.from_numpy(numpy.fromfile(a.check / f"{rank}-{name}.f32", numpy.float32)).double() for rank in ranks])

    norm = nn.BatchNorm2d(a.channels).double()
    nn.init.constant_(norm.weight, 1.5)
    nn.init.constant_(norm.bias, -0.25)
    x = read("x").view(shape).requires_grad_()
    y = norm(x)
    y.backward(read("dy").view(shape))
    first = lambda tensors: tensors[0]
    pairs = {"y": (read("y").view(shape), y), "dx": (read("dx").view(shape), x.grad), "weight": (read("weight", sum), norm.weight.grad),
             "bias": (read("bias", sum), norm.bias.grad), "mean": (read("mean", first), norm.running_mean),
             "var": (read("var", first), norm.running_var)}
    print(json.dumps({name: ((found - exact).abs().max() / exact.abs().max()).item() for name, (found, exact) in pairs.items()}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=pathlib.Path, metavar="FOLDER")
    for name, default in (("samples", 32), ("channels", 64), ("size", 32), ("rounds", 30)):
        parser.add_argument(f"--{name}", type=int, default=default)
    a = parser.parse_args()
    torch.set_num_threads(1)
    check(a) if a.check else measure(a)


main()
