"""Writes the networks of bench/simulation: NAME.pt2 for weft, and NAME.raw, their weights, for the peer. usage: networks.py FOLDER"""
import sys

import torch
from torch import nn


def convolution(inputs, outputs):
    return nn.Conv2d(inputs, outputs, 3, padding=1, padding_mode="circular")


NETWORKS = {"linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(1024, 1024), nn.Unflatten(1, (1, 32, 32))),
            "stencil": lambda: nn.Sequential(convolution(1, 1)),
            "layers": lambda: nn.Sequential(convolution(1, 32), nn.Tanh(), convolution(32, 32), nn.Tanh(), convolution(32, 1))}
torch.manual_seed(0)
for name, make in NETWORKS.items():
    network = make()
    program = torch.export.export(network, (torch.zeros(2, 1, 32, 32),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    torch.export.save(program, f"{sys.argv[1]}/{name}.pt2")
    with open(f"{sys.argv[1]}/{name}.raw", "wb") as file:
        for parameter in network.parameters():
            file.write(parameter.detach().numpy().tobytes())
