"""Losses that the tests export."""
import torch
import torch.nn.functional as F
from torch import nn


class Huber(nn.Module):
    """A loss per element, with a buffer."""

    def __init__(self, points):
        super().__init__()
        self.register_buffer("scale", torch.linspace(0.5, 1.5, points))

    def forward(self, outputs, target):
        return F.huber_loss(outputs, target, reduction="none", delta=0.7) * self.scale


class Misfit(nn.Module):
    """A loss per sample."""

    def forward(self, outputs, target):
        return ((outputs - target).square().sum((1, 2)) + 1e-3).sqrt() / target.square().sum((1, 2)).add(1e-3).sqrt()


class Mean(nn.Module):
    """The mean over the samples."""

    def forward(self, outputs, target):
        return (F.l1_loss(outputs, target) + F.smooth_l1_loss(outputs.mean(1), target.mean(1)) - F.logsigmoid(outputs * target).mean() +
                F.binary_cross_entropy(torch.sigmoid(outputs), torch.sigmoid(target)))


class Masked(nn.Module):
    """(sum, count), where positive targets alone count; `weighted`: as much as they are large."""

    def __init__(self, weighted):
        super().__init__()
        self.weighted = weighted

    def forward(self, outputs, target):
        counted = target > 0
        weight = target.clamp(min=0.0) if self.weighted else counted.float()
        return ((outputs - target).square() * weight).sum(), weight.sum() if self.weighted else counted.sum()


class Classes(nn.Module):
    """Focal loss of classes, per target (Lin et al. 2017, arXiv:1708.02002)."""

    def forward(self, logits, target):
        loss = F.cross_entropy(logits.movedim(-1, 1).unsqueeze(-1), target.unsqueeze(-1), reduction="none").squeeze(-1)  # as of pixels
        return (1 - torch.exp(-loss)).square() * loss


def mean_of(loss, outputs, target):
    """The mean of all that counts."""
    value = loss(outputs, target)
    return value[0] / value[1] if isinstance(value, tuple) else value.mean()


def module(loss):
    """A function as a module."""
    if isinstance(loss, nn.Module):
        return loss

    class Module(nn.Module):
        def forward(self, outputs, target):
            return loss(outputs, target)

    return Module()
