"""A GPT in plain PyTorch on one device: the peer of weft's gpt in tools/gpu_check.

As weft's: dropout off, AdamW with weight decay, gradients clipped at norm 1; in bf16 by autocast. Prints a line of JSON: median step time
after five steps (a third of them, of fewer), tokens per second, the last loss, peak GPU memory.
"""
import argparse
import json
import pathlib
import statistics
import time

import torch
import torch.distributed
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.head_width = width // heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (part.view(*x.shape[:2], -1, self.head_width).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.tokens, self.places = nn.Embedding(a.vocabulary, a.width), nn.Embedding(a.context, a.width)
        self.layers = nn.ModuleList(Layer(a.width, a.heads) for _ in range(a.layers))
        self.norm, self.head = nn.LayerNorm(a.width), nn.Linear(a.width, a.vocabulary, bias=False)
        if a.tied:
            nn.init.normal_(self.tokens.weight, std=0.02)
            self.head.weight = self.tokens.weight

    def forward(self, x, y):
        h = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for layer in self.layers:
            h = layer(h)
        return F.cross_entropy(self.head(self.norm(h)).flatten(0, 1), y.flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    for option in ("--compile", "--ddp", "--tied"):
        parser.add_argument(option, action="store_true")
    for key, value in dict(layers=12, heads=12, width=768, context=1024, vocabulary=50304, batch=16, steps=25).items():
        parser.add_argument("--" + key, type=int, default=value)
    a = parser.parse_args()
    torch.manual_seed(0)
    model = Gpt(a).to(a.device)
    if a.ddp:
        backend = "nccl" if a.device == "cuda" else "gloo"
        torch.distributed.init_process_group(backend, store=torch.distributed.HashStore(), rank=0, world_size=1)
    forward = torch.nn.parallel.DistributedDataParallel(model) if a.ddp else torch.compile(model) if a.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=True)
    data = torch.frombuffer(bytearray(a.text.read_bytes()), dtype=torch.uint8)
    generator = torch.Generator().manual_seed(1)
    ends = []
    for _ in range(a.steps):
        begins = torch.randint(len(data) - a.context, (a.batch,), generator=generator)
        samples = torch.stack([data[i:i + a.context + 1] for i in begins]).long().to(a.device)
        with torch.autocast(a.device, torch.bfloat16, enabled=a.dtype == "bf16"):
            loss = forward(samples[:, :-1], samples[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if a.device == "cuda":
            torch.cuda.synchronize()
        ends.append(time.perf_counter())
    warm_up = min(5, a.steps // 3)
    step_s = statistics.median(end - begin for begin, end in zip(ends[warm_up:], ends[warm_up + 1:]))
    print(json.dumps(dict(
        peer="pytorch " + torch.__version__, params=sum(p.numel() for p in model.parameters()), step_ms=round(step_s * 1e3, 2),
        tokens_per_s=round(a.batch * a.context / step_s), loss=round(loss.item(), 4),
        peak_gpu_mb=round(torch.cuda.max_memory_allocated() / 1e6) if a.device == "cuda" else None)))
    if a.ddp:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
