"""Writes a folder of JPEG files by class, always the same: FOLDER/train/CLASS/*.jpg and a few in FOLDER/val. Prints nothing.

Each has coarse and fine structure, so its file is as large as a photograph's: 20 to 30 KB at 256 x 256.
"""
import argparse
import pathlib

import numpy
from PIL import Image

CLASSES = 10


def picture(random, size):
    layers = [(random.normal(0, scale, (n, n, 3)), n) for n, scale in ((4, 60), (24, 25), (96, 12))]
    pixels = numpy.full((size, size, 3), 128.0)
    for values, n in layers:
        layer = Image.fromarray(numpy.clip(128 + values, 0, 255).astype(numpy.uint8)).resize((size, size), Image.Resampling.BICUBIC)
        pixels += numpy.asarray(layer, numpy.float32) - 128
    return Image.fromarray(numpy.clip(pixels, 0, 255).astype(numpy.uint8))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--size", type=int, default=256)
    a = parser.parse_args()
    random = numpy.random.default_rng(1)
    for part, count in (("train", a.images), ("val", 2 * CLASSES)):
        for i in range(count):
            path = a.folder / part / f"class{i % CLASSES}" / f"{i:06}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            picture(random, a.size).save(path, quality=90)


main()
