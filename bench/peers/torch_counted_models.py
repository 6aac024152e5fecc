"""The GPT of peers/torch_gpt.py and the Llama of torch_llama.py in the layouts of bench/device_counts, as a PyTorch user trains them.

Each way of clipping and updating is the one with the fewest operators that works: lists of tensors at once (foreach), fused AdamW, and
norms of local parts instead of one collective per tensor.
"""
import contextlib
import pathlib
import types

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.utils import clip_grad_norm_, get_total_norm

import torch_llama

CLIP = 1.0


@torch.library.custom_op("peer::rms_norm", mutates_args=())
def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    scale = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return x * scale * weight, scale


@torch.library.custom_op("peer::rms_norm_backward", mutates_args=())
def rms_norm_backward(gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor,
                      scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    normed, by_weight = x * scale, gradient * weight
    of_x = scale * (by_weight - normed * (by_weight * normed).mean(-1, keepdim=True))
    return of_x, (gradient * normed).flatten(0, -2).sum(0)


def save_for_backward(ctx, inputs, output):
    ctx.set_materialize_grads(False)  # of the scale
    ctx.save_for_backward(*inputs[:2], output[1])


rms_norm.register_autograd(lambda context, gradient, _: (*rms_norm_backward(gradient, *context.saved_tensors), None),
                           setup_context=save_for_backward)


class RmsNorm(torch.nn.RMSNorm):
    """One operator each way, as CUDA's; for CPUs LibTorch has only eight."""

    def forward(self, x):
        return rms_norm(x, self.weight, self.eps)[0]


def loss_of(logits, target):
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def adamw(*groups):
    return torch.optim.AdamW([{"params": group} for group in groups if group], lr=1e-3, weight_decay=0.01, fused=True)


def family(model, source):
    """(make(options, part, parts, separate), its blocks, plan of tensor parallelism). separate: q, k and v are three layers."""
    if model == "llama":
        torch_llama.nn.RMSNorm = RmsNorm
        return (lambda o, part, parts, separate: torch_llama.Llama(o, part, parts), lambda m: m.layers,
                dict(q="column", k="column", v="column", o="row", gate="column", up="column", down="row"))
    text, peer = pathlib.Path(source).read_text(), {"__name__": "peer"}
    exec(compile(text[:text.rindex("\nmain()")], source, "exec"), peer)
    return (lambda o, part, parts, separate: peer["GPT"](o, peer["Block" if separate else "FusedBlock"], part, parts),
            lambda m: m.blocks, dict(q="column", k="column", v="column", proj="row", up="column", down="row"))


def trainer(layout, a, rank):
    """A function that makes a step of `a.micro_batches` micro-batches, from the batch to the update."""
    options = types.SimpleNamespace(vocab=256, ctx=a.context, dim=a.width, heads=a.heads, kv_heads=a.heads, layers=a.layers,
                                    ffn=-(-8 * a.width // (3 * 256)) * 256)
    make, blocks, plan = family(a.model, a.source)
    if layout == "pp":
        return pipeline(a, make(options, rank, dist.get_world_size(), False), rank)
    model = make(options, 0, 1, layout == "tp")
    groups, clip = None, lambda: clip_grad_norm_(model.parameters(), CLIP, foreach=True)
    accumulate = contextlib.nullcontext
    if layout == "dp":
        model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, broadcast_buffers=False)
        accumulate = model.no_sync
    elif layout == "zero-3":
        from torch.distributed.fsdp import fully_shard
        for part in [*blocks(model), model]:
            fully_shard(part)
    elif layout == "tp":
        sharded, replicated, others = split_over_tensors(model, blocks(model), plan)
        groups = [sharded + replicated, others]
        clip = lambda: clip_parts([p.grad.to_local() for p in sharded],
                                  [p.grad.to_local() for p in replicated] + [p.grad for p in others])
    optimizer = adamw(*(groups or [list(model.parameters())]))

    def step(batches):
        for i, (x, y) in enumerate(batches):
            with contextlib.nullcontext() if i + 1 == len(batches) else accumulate():
                loss = loss_of(model(x), y)
                (loss / len(batches) if len(batches) > 1 else loss).backward()
        update(optimizer, clip)
    return step


def update(optimizer, clip):
    clip()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def split_over_tensors(model, blocks, plan):
    """(sharded parameters, replicated ones that are DTensors, others)."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in blocks:
        parallelize_module(block, mesh, {name: ColwiseParallel() if how == "column" else RowwiseParallel()
                                         for name, how in plan.items()})
    spread = [p for p in model.parameters() if isinstance(p, DTensor)]
    return ([p for p in spread if p.placements[0].is_shard()], [p for p in spread if not p.placements[0].is_shard()],
            [p for p in model.parameters() if not isinstance(p, DTensor)])


def clip_parts(sharded, whole=()):
    """By the norm of all gradients: squares of parts are summed over the ranks, those of whole ones count once."""
    square = get_total_norm(sharded, foreach=True).square()
    dist.all_reduce(square)
    if whole:
        square = square + get_total_norm(whole, foreach=True).square()
    torch._foreach_mul_([*sharded, *whole], torch.clamp(CLIP / (square.sqrt() + 1e-6), max=1.0))


def pipeline(a, part, rank):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B
    count = a.micro_batches
    stage = PipelineStage(part, rank, dist.get_world_size(), torch.device("cpu"))
    schedule = Schedule1F1B(stage, count, loss_fn=lambda logits, target: loss_of(logits, target) / count, scale_grads=False)
    optimizer = adamw(list(part.parameters()))

    def step(batches):
        x, y = batches
        if part.first:
            schedule.step(x, return_outputs=False)
        else:
            schedule.step(target=y, losses=[], return_outputs=False)
        update(optimizer, lambda: clip_parts([p.grad for p in part.parameters()]))
    return step
