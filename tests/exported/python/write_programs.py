"""Writes the small programs of tests/exported/programs, without what they do not need: stack traces and the example.

usage: write_programs.py FOLDER
"""
import json
import pathlib
import sys
import tempfile
import zipfile

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import losses  # noqa: E402
import nets  # noqa: E402


class Images(nn.Sequential):
    """With a frozen parameter."""

    def __init__(self):
        super().__init__(nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Dropout(0.1),
                         nn.Linear(256, nets.CLASSES))
        self[0].bias.requires_grad_(False)


def write(model, path, *examples):
    batch = torch.export.Dim("batch") if len(examples) > 1 else torch.export.Dim.DYNAMIC
    program = torch.export.export(model.train(), examples, dynamic_shapes=tuple({0: batch} for _ in examples))
    with tempfile.TemporaryDirectory() as folder:
        torch.export.save(program, f"{folder}/whole.pt2")
        archive = zipfile.ZipFile(f"{folder}/whole.pt2")
        writer = torch._C.PyTorchFileWriter(str(path))
        for name in archive.namelist():
            record, data = name.split("/", 1)[1], archive.read(name)
            if record == "models/model.json":
                graph = json.loads(data)
                for node in graph["graph_module"]["graph"]["nodes"]:
                    node["metadata"] = {key: value for key, value in node["metadata"].items() if key == "nn_module_stack"}
                data = json.dumps(graph).encode()
            if record not in (".data/version", ".data/serialization_id", "data/sample_inputs/model.pt"):
                writer.write_record(record, data, len(data))
        writer.write_end_of_file()


torch.manual_seed(0)
folder = pathlib.Path(sys.argv[1])
write(Images(), folder / "images.pt2", nets.example(False, 2))
write(nets.Gpt(dropout=0.1, width=8, heads=2), folder / "tokens.pt2", nets.example(True, 2))
write(nets.Fields(), folder / "fields.pt2", torch.zeros(2, 3, nets.POINTS))
write(nets.Guided(), folder / "guided.pt2", torch.zeros(2, 3, nets.POINTS), torch.zeros(2, dtype=torch.int64), torch.zeros(2, nets.POINTS))
write(losses.Huber(nets.POINTS), folder / "huber.pt2", *torch.zeros(2, 2, 2, nets.POINTS))
write(nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular"), folder / "stencil.pt2", torch.zeros(2, 1, 32, 32))
