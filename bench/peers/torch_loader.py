"""torch.utils.data.DataLoader over torchvision's ImageFolder and transforms: the counterpart of bench/loader.cpp. Prints a line of JSON.

--tensors: decodes with torchvision.io and uses transforms.v2 on uint8 tensors, instead of Pillow and the classic transforms.
"""
import argparse
import json
import time

import torch
from torchvision import datasets, io, transforms
from torchvision.transforms import v2

MEAN, STDDEV = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def images_of(folder, size, tensors):
    if not tensors:
        return datasets.ImageFolder(folder, transforms.Compose([
            transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
            transforms.Normalize(MEAN, STDDEV)]))
    return datasets.ImageFolder(folder, v2.Compose([
        v2.RandomResizedCrop(size, antialias=True), v2.RandomHorizontalFlip(), v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(MEAN, STDDEV)]), loader=lambda path: io.decode_jpeg(io.read_file(path), mode=io.ImageReadMode.RGB))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--skip", type=int, default=8, help="batches excluded from the rate")
    parser.add_argument("--tensors", action="store_true")
    a = parser.parse_args()
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(images_of(a.folder, a.size, a.tensors), batch_size=a.batch, shuffle=True,
                                         num_workers=a.workers, drop_last=True)
    count = first_pixels = 0
    for i, (images, _) in enumerate(loader):
        if i == a.skip:
            start = time.perf_counter()
        if i >= a.skip:
            first_pixels += images.view(-1)[0].item()
            count += len(images)
    count -= a.batch  # the clock starts after batch i == skip arrives
    print(json.dumps({"images": count, "images_per_s": count / (time.perf_counter() - start), "sum_of_first_pixels": first_pixels}))


if __name__ == "__main__":
    main()
