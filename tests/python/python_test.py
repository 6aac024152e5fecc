#!/usr/bin/env -S python3 -B
"""tests/python/python_test.py BUILD COMPILER CACHE [ARGUMENT OF PYTEST...]: pytest of weft_module_test.py and misuse_test.py, or the file given, in a clean
environment with the wheel (tests/wheel/environment.py).
"""
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "wheel"))
from environment import Environment, main_in_mounts_of_its_own  # noqa: E402

PYTEST = "/usr/lib/python3/dist-packages"  # of Debian's python3-pytest; torch and all else comes before it


def main():
    main_in_mounts_of_its_own(__file__, sys.argv[1:])
    build, compiler, cache, *arguments = sys.argv[1:]
    arguments = arguments or ["weft_module_test.py", "misuse_test.py"]
    at = Environment()
    try:
        at.set_up(pathlib.Path(build).resolve(), compiler, pathlib.Path(cache))
        for package in (*at.peers, *at.used_by_peers):
            for path in (at.cache / "test-packages").glob(f"{package}*"):  # with what importlib.metadata reads
                (at.site / path.name).symlink_to(path)
        (at.site / "pytest.pth").write_text(f"{PYTEST}\n")
        shutil.copytree(HERE, at.home / "tests", ignore=shutil.ignore_patterns("python_test.py", "__pycache__"))
        for page in ("python_modules", "migrate", "recipes", "exported"):
            shutil.copy(HERE.parents[1] / "docs" / f"{page}.md", at.home / "tests")
        figures = at.home / "figures"
        figures.touch()
        figures.chmod(0o666)
        print(at.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=8", *arguments, deadline_s=500,
                     folder="tests", PYTHONPATH=str(at.home / "tests"), TORCH_USE_RTLD_GLOBAL="1", LD_LIBRARY_PATH=str(at.empty), WEFT_TEST_FIGURES=str(figures),
                     HF_HUB_OFFLINE="1"))
        print(figures.read_text())
    finally:
        at.remove()


main()
