"""BatchNorm over ranks in PyTorch, on CPUs. Run by torchrun; rank 0 prints a line of JSON.

torch.nn.SyncBatchNorm rejects CPU tensors (its forward says so). This does the same with CPU operators: one all-reduce of sums,
squares and counts, LibTorch's batch_norm with the resulting statistics, one all-reduce of the two sums that backward needs.
--check FOLDER, without torchrun: prints the largest difference between the tensors that bench/batch_norm.cpp left there and
torch.nn.BatchNorm2d over the samples of all ranks, in float64, relative to each tensor's largest value.
"""
import argparse
import json
import pathlib
import time

import numpy
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


class OverRanks(torch.autograd.Function):
    """y of x, normalised by the mean and variance over the samples of all ranks."""

    @staticmethod
    def forward(ctx, x, weight, bias, running_mean, running_var, momentum, eps):
        count = x.numel() // x.shape[1]
        var, mean = torch.var_mean(x, (0, 2, 3), correction=0)
        sums = torch.cat([mean * count, (var + mean * mean) * count, mean.new_tensor([count])])
        dist.all_reduce(sums)
        total = sums[-1]
        mean, square = (sums[:-1] / total).chunk(2)
        var = square - mean * mean
        running_mean.lerp_(mean, momentum)
        running_var.lerp_(var * (total / (total - 1)), momentum)
        ctx.save_for_backward(x, weight, mean, torch.rsqrt(var + eps), total)
        return F.batch_norm(x, mean, var, weight, bias, training=False, eps=eps)

    @staticmethod
    def backward(ctx, dy):
        x, weight, mean, inverse, total = ctx.saved_tensors
        per_channel = lambda values: values.view(1, -1, 1, 1)
        bias = dy.sum((0, 2, 3))
        centred = x - per_channel(mean)
        along = torch.sum(dy * centred, (0, 2, 3))
        sums = torch.cat([bias, along])
        dist.all_reduce(sums)
        dy_mean, along_mean = (sums / total).chunk(2)
        dx = centred.mul_(per_channel(-along_mean * inverse * inverse)).add_(dy).sub_(per_channel(dy_mean)).mul_(
            per_channel(inverse * weight))
        return dx, along * inverse, bias, None, None, None, None


class BatchNormOverRanks(nn.BatchNorm2d):
    def forward(self, x):
        return OverRanks.apply(x, self.weight, self.bias, self.running_mean, self.running_var, self.momentum, self.eps)


def refuses_cpu():
    try:
        nn.SyncBatchNorm(3)(torch.zeros(2, 3, 4, 4))
    except (ValueError, RuntimeError):
        return True
    return False


def whole_batch_error(norm, x, dy):
    """Largest difference of y, dx and the running variance from BatchNorm2d over all ranks' samples, in float64."""
    gathered = []
    for tensor in (x.detach(), dy):
        gathered.append([torch.empty_like(tensor) for _ in range(dist.get_world_size())])
        dist.all_gather(gathered[-1], tensor)
    all_x, all_dy = (torch.cat(parts).double() for parts in gathered)
    whole = nn.BatchNorm2d(x.shape[1]).double()
    all_y = whole(all_x.requires_grad_())
    all_y.backward(all_dy)
    y = norm(x)
    y.backward(dy)
    mine = slice(dist.get_rank() * len(x), (dist.get_rank() + 1) * len(x))
    error = max((y - all_y[mine]).abs().max().item(), (x.grad - all_x.grad[mine]).abs().max().item(),
                (norm.running_var - whole.running_var).abs().max().item())
    x.grad = norm.weight.grad = norm.bias.grad = None
    return error


def measure(a):
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    norm = BatchNormOverRanks(a.channels) if refuses_cpu() else nn.SyncBatchNorm(a.channels)
    layout = torch.channels_last if a.channels_last else torch.contiguous_format
    x = torch.randn(a.samples, a.channels, a.size, a.size).contiguous(memory_format=layout).requires_grad_()
    dy = torch.randn(x.shape).contiguous(memory_format=layout)
    exact_to = whole_batch_error(norm, x, dy)
    seconds = []
    for _ in range(a.rounds):
        dist.barrier()
        start = time.perf_counter()
        norm(x).backward(dy)
        seconds.append(time.perf_counter() - start)
        x.grad = norm.weight.grad = norm.bias.grad = None
    if dist.get_rank() == 0:
        print(json.dumps({"ms": 1e3 * sorted(seconds)[len(seconds) // 2], "ranks": dist.get_world_size(),
                          "module": type(norm).__name__, "exact_to": exact_to}), flush=True)
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
    parser.add_argument("--channels-last", action="store_true")
    a = parser.parse_args()
    torch.set_num_threads(1)
    check(a) if a.check else measure(a)


main()
