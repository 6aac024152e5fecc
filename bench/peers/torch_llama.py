"""A small Llama in plain PyTorch: DistributedDataParallel over Gloo, on CPUs. Run by torchrun.

RMS norms, rotary positions, grouped queries and gated feed-forward layers as in common implementations (Touvron et al. 2023,
arXiv:2302.13971), with nn.RMSNorm, scaled_dot_product_attention's enable_gqa and fused AdamW. Rank 0 prints a line of JSON: tokens
per second over the timed steps, its peak resident MB, the last loss.
"""
import argparse
import json
import resource
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def rotation(context, width):
    angles = torch.outer(torch.arange(context, dtype=torch.float32), 10000.0 ** (-torch.arange(0, width, 2) / width))
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    low, high = x.chunk(2, -1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)


class Layer(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.head = a.dim // a.heads
        self.norm1, self.norm2 = nn.RMSNorm(a.dim, 1e-5), nn.RMSNorm(a.dim, 1e-5)
        self.q, self.o = nn.Linear(a.dim, a.dim, bias=False), nn.Linear(a.dim, a.dim, bias=False)
        self.k, self.v = (nn.Linear(a.dim, a.kv_heads * self.head, bias=False) for _ in range(2))
        self.gate, self.up = nn.Linear(a.dim, a.ffn, bias=False), nn.Linear(a.dim, a.ffn, bias=False)
        self.down = nn.Linear(a.ffn, a.dim, bias=False)

    def heads(self, x):
        return x.view(*x.shape[:2], -1, self.head).transpose(1, 2)

    def forward(self, x, cos, sin):
        n = self.norm1(x)
        q, k, v = (self.heads(layer(n)) for layer in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        n = self.norm2(x)
        return x + self.down(F.silu(self.gate(n)) * self.up(n))


class Llama(nn.Module):
    """The part of the model that stage `rank` of `stages` holds; all of it by default."""
    def __init__(self, a, rank=0, stages=1):
        super().__init__()
        self.first, self.last = rank == 0, rank == stages - 1
        if self.first:
            self.embed = nn.Embedding(a.vocab, a.dim)
        self.layers = nn.ModuleList(Layer(a) for _ in range(a.layers // stages))
        if self.last:
            self.norm, self.head = nn.RMSNorm(a.dim, 1e-5), nn.Linear(a.dim, a.vocab, bias=False)
        cos, sin = rotation(a.ctx, a.dim // a.heads)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, x):
        if self.first:
            x = self.embed(x)
        cos, sin = self.cos.to(x.dtype), self.sin.to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x)) if self.last else x


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for key, value in dict(text="", vocab=256, ctx=256, dim=384, heads=6, kv_heads=2, ffn=1024, layers=6, batch=8, steps=10, warmup=2,
                           threads=1, dtype="fp32").items():
        parser.add_argument("--" + key, type=type(value), default=value)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    model = nn.parallel.DistributedDataParallel(Llama(a), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01, fused=True)
    data = torch.frombuffer(bytearray(open(a.text, "rb").read()), dtype=torch.uint8)
    generator = torch.Generator().manual_seed(1)
    for step in range(a.warmup + a.steps):
        if step == a.warmup:
            dist.barrier()
            start = time.perf_counter()
        places = torch.randint(len(data) - a.ctx - 1, (a.batch * world,), generator=generator)[rank * a.batch:(rank + 1) * a.batch]
        x = torch.stack([data[i:i + a.ctx] for i in places]).long()
        y = torch.stack([data[i + 1:i + 1 + a.ctx] for i in places]).long()
        with torch.autocast("cpu", torch.bfloat16, enabled=a.dtype == "bf16"):
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    dist.barrier()
    seconds = time.perf_counter() - start
    if rank == 0:
        print(json.dumps(dict(
            peer="pytorch " + torch.__version__, world=world, threads=a.threads, params=sum(p.numel() for p in model.parameters()),
            tokens_per_s=round(a.batch * world * a.ctx * a.steps / seconds, 1), loss=round(loss.item(), 4),
            peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
