"""Models that the tests export, in plain torch.nn."""
import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, CONTEXT, CLASSES, SIZE, POINTS = 64, 16, 5, 16, 12


class Mlp(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(SIZE * SIZE, 32), nn.GELU(), nn.Linear(32, 32), nn.LayerNorm(32), nn.Tanh(),
                         nn.Linear(32, CLASSES))


class Cnn(nn.Sequential):
    """BatchNorm, and dropout of nothing, whose operator is there all the same."""

    def __init__(self):
        super().__init__(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
                         nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.Dropout(0.0),
                         nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, CLASSES))


class Fields(nn.Module):
    """A field of three channels to one of two, as a regression."""

    def __init__(self, width=8):
        super().__init__()
        self.lift, self.layers, self.head = nn.Conv1d(3, width, 3, padding=1), nn.ModuleList(
            nn.Conv1d(width, width, 3, padding=1) for _ in range(2)), nn.Conv1d(width, 2, 1)

    def forward(self, x):
        y = torch.tanh(self.lift(x))
        for layer in self.layers:
            y = y + torch.tanh(layer(y))
        return self.head(y)


class Guided(Fields):
    """Guided by a class and a mask, which every layer reads."""

    def __init__(self, width=8):
        super().__init__(width)
        self.kinds = nn.Embedding(CLASSES, width)

    def forward(self, field, kind, mask):
        y, guide, mask = torch.tanh(self.lift(field)), self.kinds(kind).unsqueeze(-1), mask.unsqueeze(1)
        for layer in self.layers:
            y = (y + torch.tanh(layer(y) + guide)) * mask
        return self.head(y)


def pair(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.GroupNorm(2, outputs), nn.ReLU(inplace=True))


class UNet(nn.Module):
    """Skips over all stages; its pixels' logits are averaged, as the data has one label per image."""

    def __init__(self, width=4):
        super().__init__()
        self.down1, self.down2, self.middle = pair(1, width), pair(width, 2 * width), pair(2 * width, 4 * width)
        self.up2, self.join2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), pair(4 * width, 2 * width)
        self.up1, self.join1 = nn.ConvTranspose2d(2 * width, width, 2, 2), pair(2 * width, width)
        self.head = nn.Conv2d(width, CLASSES, 1)

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(F.max_pool2d(first, 2))
        y = self.middle(F.max_pool2d(second, 2))
        y = self.join2(torch.cat([self.up2(y), second], 1))
        y = self.join1(torch.cat([self.up1(y), first], 1))
        return self.head(y).mean((2, 3))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.rnn, self.head = nn.Embedding(VOCABULARY, 16), nn.LSTM(16, 24, 2, batch_first=True), nn.Linear(24, VOCABULARY)

    def forward(self, ids):
        return self.head(self.rnn(self.embedding(ids))[0])


class Layer(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.norm1, self.norm2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.dropout = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Dropout(dropout)

    def forward(self, x):
        samples, tokens, width = x.shape
        q, k, v = (y.view(samples, tokens, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.out(y.transpose(1, 2).reshape(samples, tokens, width)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class Gpt(nn.Module):
    """Tied: its logits are products with the token embeddings."""

    def __init__(self, dropout=0.0, width=32, heads=4, layers=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, width), nn.Embedding(CONTEXT, width)
        self.h = nn.ModuleList(Layer(width, heads, dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.h:
            x = layer(x)
        return self.head(self.norm(x))


class Held(nn.Module):
    """A convolution and a BatchNorm that run twice; buffers that checkpoints keep, read by several blocks; new tensors; a
    region without gradients; depth that is dropped at random, and dropout in place."""

    def __init__(self, drop=0.0):
        super().__init__()
        from torchvision.ops import StochasticDepth
        self.first, self.conv, self.norm = nn.Conv2d(1, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.depth, self.wide, self.head = StochasticDepth(drop, "row"), nn.Linear(512, 64), nn.Linear(64, CLASSES)
        self.drop, self.instance = nn.Dropout(drop, inplace=True), nn.InstanceNorm2d(8, track_running_stats=True)
        self.register_buffer("angles", torch.linspace(0.0, 900.0, 64))

    def forward(self, x):
        x = self.instance(self.first(x))
        for _ in range(2):
            x = x + self.depth(self.norm(self.conv(x)))
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            scale = 1 + x.mean((1, 2, 3)).sigmoid().unsqueeze(1)
        x = self.wide(self.drop(torch.relu(x.flatten(1)))) + self.angles.sin() + torch.arange(64).float() / 64
        return self.head(torch.tanh(x) * self.angles.cos() * scale)


class Grouped(nn.Module):
    """Two heads of keys and values for four of queries, rotated and normed; scores with a slope for each head, by hand."""

    def __init__(self, drop, width=32):
        super().__init__()
        self.q, self.kv, self.out = nn.Linear(width, width), Transposed(width, width), nn.Linear(width, width)
        self.norm, self.drop, self.slopes = nn.LayerNorm(8), nn.Dropout(drop), nn.Parameter(torch.ones(4, 1, 1) / 8)
        angles = torch.arange(CONTEXT)[:, None] / 10 ** torch.linspace(0, 1, 8)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        self.register_buffer("distances", torch.arange(CONTEXT)[None].float() - torch.arange(CONTEXT)[:, None], persistent=False)

    def rotated(self, x):
        x = self.norm(x)
        return x * self.cos + torch.cat((-x[..., 4:], x[..., :4]), -1) * self.sin

    def forward(self, x):
        samples, tokens, width = x.shape
        q = self.rotated(self.q(x).view(samples, tokens, 4, 8).permute(0, 2, 1, 3))
        k, v = (y.unflatten(-1, (2, 8)).transpose(1, 2) for y in self.kv(x).chunk(2, -1))
        k, v = (y[:, :, None].expand(-1, -1, 2, -1, -1).reshape(samples, 4, tokens, 8) for y in (self.rotated(k), v))
        scores = q @ k.transpose(-1, -2) / 8 ** 0.5 + self.slopes * self.distances
        shares = self.drop(scores.masked_fill(self.distances > 0, float("-inf")).softmax(-1))
        y = torch.bmm(shares.flatten(0, 1), v.flatten(0, 1)).view(samples, 4, tokens, 8)
        return self.out(y.transpose(1, 2).reshape(samples, tokens, width))


class Transposed(nn.Module):
    """A linear layer as transformers' Conv1D."""

    def __init__(self, inputs, outputs, **factors):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(inputs, outputs) / inputs ** 0.5), nn.Parameter(torch.randn(outputs) / 10)
        self.factors = factors

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight, **self.factors).view(*x.shape[:-1], self.bias.numel())


class Gated(nn.Module):
    """Gates and values in one layer; scales of each feature, and one of all."""

    def __init__(self, drop, width=32):
        super().__init__()
        self.drop, self.both, self.down = nn.Dropout(drop), nn.Linear(width, 96, bias=False), Transposed(48, width)
        self.scales, self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 48)), nn.Parameter(torch.ones(1))
        self.scaled = Transposed(width, width, alpha=0.5)

    def forward(self, x):
        gate, value = self.both(x).split(48, -1)
        with torch.no_grad():
            offset = (gate * self.scale).sigmoid()
        y = torch.stack([F.silu(gate) * self.scale, value * self.scales]).unbind(0)
        y = y[0] * y[1] + y[0].mean(1, keepdim=True) + offset
        y = torch.cat((y, y), -1)[..., -48:]
        return self.down(self.drop(y.flatten(0, 1))).unflatten(0, (-1, x.shape[1])) + self.scaled(x)


class Mixed(nn.Module):
    """Layers whose parts go through most operators that carry them on; one embedding that pads."""

    def __init__(self, drop=0.2):
        super().__init__()
        self.embedding, self.attention, self.mlp = nn.Embedding(VOCABULARY, 32, padding_idx=3), Grouped(drop), Gated(drop)
        self.head = nn.Linear(32, VOCABULARY)

    def forward(self, ids):
        x = self.embedding(ids)
        x = x + self.attention(x)
        return self.head(x + self.mlp(x))


class Spectrum(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(SIZE, SIZE)

    def forward(self, x):
        return torch.fft.rfft(self.linear(x))


class Spectral(nn.Module):
    """A module that hands on complex values; layers before and after it."""

    def __init__(self):
        super().__init__()
        self.first, self.spectrum, self.gains = nn.Linear(SIZE, SIZE), Spectrum(), nn.Parameter(torch.ones(SIZE // 2 + 1))
        self.last = nn.Linear(SIZE * SIZE, CLASSES)

    def forward(self, x):
        y = self.spectrum(torch.tanh(self.first(x))) * self.gains
        return self.last(torch.tanh(torch.fft.irfft(y, n=SIZE)).flatten(1))


class Rotating(nn.Module):
    """Layers that read complex constants, made once before them."""

    def __init__(self, width=16):
        super().__init__()
        self.embedding, self.layers = nn.Embedding(VOCABULARY, width), nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.head = nn.Linear(width, VOCABULARY)
        angles = torch.outer(torch.arange(2 * CONTEXT), torch.linspace(0.1, 1.0, width // 2))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles), persistent=False)

    def forward(self, ids):
        x, turns = self.embedding(ids), self.turns[:ids.shape[1]]
        for layer in self.layers:
            y = torch.view_as_complex(layer(x).unflatten(-1, (-1, 2)).contiguous()) * turns
            x = x + torch.tanh(torch.view_as_real(y).flatten(2))
        return self.head(x)


class Sharing(nn.Module):
    """Layers that read what is made once before them: all but the last pass it on."""

    def __init__(self, width=16):
        super().__init__()
        self.embedding, self.layers = nn.Embedding(VOCABULARY, width), nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, ids):
        x = self.embedding(ids)
        scale = x.mean(-1, keepdim=True)
        for layer in self.layers:
            x = x + torch.tanh(layer(x)) * scale
        return self.head(x)


# By name: the model, and whether it reads tokens.
NETS = {"cnn": (Cnn, False), "unet": (UNet, False), "lstm": (Lstm, True), "gpt": (Gpt, True), "held": (Held, False), "sharing": (Sharing, True),
        "spectral": (Spectral, False), "rotating": (Rotating, True)}
RANDOM = {"drop": (lambda: Gpt(dropout=0.2), True), "depth": (lambda: Held(drop=0.4), False), "mixed": (Mixed, True)}
# By name: layers that ranks of tp share.
SPLITS = {
    "gpt": ["model.tp_columns=h.*.qkv:3, h.*.up", "model.tp_rows=h.*.out, h.*.down", "model.tp_vocabulary=wte, head"],
    "mixed": ["model.tp_columns=attention.q, *.kv:2, mlp.both:2", "model.tp_rows=*.out, *.down", "model.tp_vocabulary=embedding, head"],
}
SPLITS["drop"] = SPLITS["gpt"]


def example(tokens, samples=4):
    return torch.randint(VOCABULARY, (samples, CONTEXT)) if tokens else torch.randn(samples, 1, SIZE, SIZE)
