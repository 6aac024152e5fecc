"""Counts what a step of PyTorch gives a device, by layout (torch_counted_models.py): operators, collectives, waits of the host.

Prints one line of JSON: means over the ranks, and the largest rank's peak bytes. The ranks are processes of this program, on CPUs over
Gloo; they end at --deadline-s, with the first that fails, and with this one.

A launch is an operator or a collective that gives a device work: views, allocations and waits of streams do not. A list of tensors
(foreach, fused AdamW) is one. What only CPUs or only Gloo do is left out: RMS norms in eight operators, a copy behind a reduce-scatter.
"""
import argparse
import collections
import ctypes
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

LAYOUTS = {"one": 1, "dp": 2, "zero-3": 2, "pp": 2, "tp": 2}  # ranks
RANKS = 2
WARM_UP = 2  # then PyTorch's DDP has its final buckets, a pipeline its shapes, AdamW its state


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="peers/torch_gpt.py of the shared folder")
    parser.add_argument("--model", default="gpt", choices=("gpt", "llama"))
    for name in ("layers", "width", "heads", "context", "micro", "micro-batches"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--deadline-s", type=float, default=1800)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)  # of the processes that this one starts
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(words)


def main():
    a = parse(sys.argv[1:])
    if a.rank is not None:
        print(json.dumps(count_layouts(a)))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("torch_counts: it was ended"))
    print(json.dumps({"layouts": mean_over_ranks(start_ranks(sys.argv[1:], a.deadline_s))}))


def start_ranks(words, deadline_s):
    """What each rank printed. All have ended when this returns or raises."""
    until = time.monotonic() + deadline_s
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder, f"{rank}") for rank in range(RANKS)]
        ranks = []
        try:
            for rank, file in enumerate(files):
                with open(file, "w") as out, open(f"{file}.err", "w") as errors:
                    ranks.append(subprocess.Popen([sys.executable, "-B", __file__, *words, f"--rank={rank}", f"--port={port}"],
                                                  stdin=subprocess.DEVNULL, stdout=out, stderr=errors))
            while any(rank.poll() is None for rank in ranks):
                if any(rank.returncode for rank in ranks) or time.monotonic() > until:
                    break
                time.sleep(0.05)
        finally:
            done = [rank.poll() for rank in ranks]
            for rank in ranks:
                rank.kill()
                rank.wait()
        for rank, status in enumerate(done):
            if status:
                last = (pathlib.Path(f"{files[rank]}.err").read_text().strip().splitlines() or ["no message"])[-1]
                sys.exit(f"torch_counts: rank {rank} ended with status {status}: {last}")
        if None in done:
            sys.exit(f"torch_counts: the ranks were not done in {deadline_s:g} s: raise --deadline-s, or count a smaller model")
        return [json.loads(file.read_text()) for file in files]


def mean_over_ranks(found):
    layouts = []
    for name, ranks in LAYOUTS.items():
        each = [counts[name] for counts in found if name in counts]
        launches_by = collections.Counter()
        for counts in each:
            launches_by.update(counts["launches_by"])
        layouts.append({"layout": name, **{key: sum(counts[key] for counts in each) / ranks
                                           for key in ("launches", "collectives", "waits")},
                        "peak_bytes": max(counts["peak_bytes"] for counts in each),
                        "launches_by": {key: count / ranks for key, count in launches_by.most_common()}})
    return layouts


def count_layouts(a):
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: with the process that started this one
    import torch
    import torch.distributed as dist
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(a.port), "RANK": str(a.rank), "WORLD_SIZE": str(RANKS)}
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    found = {name: count(name, a) for name, ranks in LAYOUTS.items() if a.rank < ranks}
    dist.barrier()
    dist.destroy_process_group()
    return found


def count(layout, a):
    import torch
    import torch_counted_models as models
    from torch_counter import Counter
    is_pipeline = layout == "pp"
    if is_pipeline:
        a = argparse.Namespace(**{**vars(a), "micro_batches": max(a.micro_batches, RANKS)})  # as bench/device_counts.cpp
    with Counter() as counter:
        step = models.trainer(layout, a, a.rank)
        batches = torch.randint(256, (2, a.micro_batches, a.micro, a.context))
        batches = batches.flatten(1, 2) if is_pipeline else batches.unbind(1)
        for _ in range(WARM_UP):
            step(batches)
        counter.restart()
        step(batches)
        return counter.report()


if __name__ == "__main__":
    main()
