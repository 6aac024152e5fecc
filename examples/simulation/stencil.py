"""Writes stencil.pt2, the network of simulation.f90: python stencil.py [FILE]"""
import sys

import torch

stencil = torch.nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular")
program = torch.export.export(stencil, (torch.zeros(2, 1, 32, 32),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
torch.export.save(program, sys.argv[1] if len(sys.argv) > 1 else "stencil.pt2")
