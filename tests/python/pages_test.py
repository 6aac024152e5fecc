"""Runs the Python on pages as a reader would."""
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent


def blocks(page):
    """(section, code) of each block of Python."""
    section, found = "", []
    for part in re.split(r"(?m)^## ", (HERE / page).read_text(encoding="utf-8")):
        section = part.splitlines()[0]
        found += [(section, code) for code in re.findall(r"(?ms)^```python\n(.*?)^```", part)]
    return found


def printed(folder, code, ranks, tries=1):
    """`tries`: how often to start again after an abort, as of PyTorch 2.11 over Gloo, whose ranks sometimes abort while they exit."""
    (folder / "train.py").write_text(code)
    command = [sys.executable, "train.py"]
    if ranks > 1:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--standalone", "train.py"]
    for _ in range(tries):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=150)
        if done.returncode == 0 or "SIGABRT" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


(_, SHARED), *BLOCKS = blocks("migrate.md")
PAIRS = [(*peer, weft[1]) for peer, weft in zip(BLOCKS[::2], BLOCKS[1::2], strict=True)]


@pytest.mark.parametrize(("name", "peer", "ours"), PAIRS, ids=[pair[0] for pair in PAIRS])
def test_migration(tmp_path, name, peer, ours):
    """The peer's way and weft's reach the same loss."""
    losses = []
    for code, tries in ((peer, 3), (ours, 1)):
        losses.append(set(re.findall(r"\d\.\d{6}", printed(tmp_path, SHARED + code, 2, tries))))  # ranks' lines may interleave
    assert all(len(values) == 1 for values in losses), losses
    (theirs,), (weft,) = losses
    assert float(weft) == pytest.approx(float(theirs), rel=2e-5)


def test_module_page(tmp_path):
    (_, first), (_, recipes) = blocks("python_modules.md")
    text = printed(tmp_path, first, 2)
    assert all(f"{step}: loss " in text for step in (10, 20, 30, 40)) and text.count("Evaluation(loss=") == 2
    assert len(printed(tmp_path, recipes, 1).splitlines()) == 3
