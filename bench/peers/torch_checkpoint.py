"""torch.distributed.checkpoint on the state of a GPT with AdamW: the counterpart of bench/checkpoint.cpp, with the same shapes.

Run by torchrun. --shapes: a JSON list of the weights' shapes; each appears three times, as weight and as AdamW's two moments.
Replicated tensors are plain, sharded ones are DTensors. Prints a line of JSON.
"""
import argparse
import json
import pathlib
import shutil
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor


def make_state(shapes, sharded):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),)) if sharded else None
    torch.manual_seed(0)
    make = (lambda shape: distribute_tensor(torch.randn(shape), mesh, [Shard(0)])) if sharded else torch.randn
    return {part: {f"p{i}": make(shape) for i, shape in enumerate(shapes)} for part in ("model", "exp_avg", "exp_avg_sq")}


def timed(call):
    dist.barrier()
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def all_done(own):
    not_yet = torch.tensor([0.0 if own else 1.0])
    dist.all_reduce(not_yet)
    return not_yet.item() == 0.0


def measure(state, path, group):
    """Times a save, a background save during work, and a load. The work is matrix products, the bulk of a step."""
    factor = torch.randn(768, 768)
    save_s = timed(lambda: dcp.save(state, checkpoint_id=str(path / "save")))
    dist.barrier()
    start = time.perf_counter()
    future = dcp.async_save(state, checkpoint_id=str(path / "beside"), process_group=group)
    stall_s = time.perf_counter() - start
    done_at = []
    future.add_done_callback(lambda _: done_at.append(time.perf_counter()))
    while not all_done(bool(done_at)):
        for _ in range(20):
            factor @ factor
    future.result()
    load_s = timed(lambda: dcp.load(state, checkpoint_id=str(path / "save")))
    size = sum(file.stat().st_size for file in (path / "save").iterdir())
    return {"bytes": size, "save_s": save_s, "stall_s": stall_s, "beside_s": done_at[0] - start, "load_s": load_s}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--shapes", type=json.loads, required=True)
    parser.add_argument("--sharded", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    group = dist.new_group(backend="gloo")  # PyTorch's docs ask for this if a save overlaps collectives
    state = make_state(arguments.shapes, arguments.sharded)
    rounds = []
    for i in range(arguments.rounds + 1):
        path = arguments.folder / f"round-{i}"
        rounds.append(measure(state, path, group))
        dist.barrier()
        if dist.get_rank() == 0:
            shutil.rmtree(path)
        dist.barrier()
    if dist.get_rank() == 0:
        print(json.dumps(rounds[1:]), flush=True)
    dist.destroy_process_group()


main()
