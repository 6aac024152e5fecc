"""Builds weft for pip (pyproject.toml, PEP 517): the wheel by CMake and tools/wheel, as `make wheel` does, and the sdist, which `make sdist`
writes to the folder named as an argument.

A backend of our own, as others such as scikit-build-core would leave to us what is most of it: numbers of torch in the version, libraries
and licenses of Debian's packages, the tag. It needs nothing beyond Python. The wheel is built over the LibTorch and Arrow of the installed
torch and pyarrow, if they have the right version, or of weft's cache folder (tools/bootstrap); otherwise pip fetches them for the build.
"""
import gzip
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = "SOURCES.txt"  # of an sdist: the names of its files
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "weft")
PINS = (ROOT / "tools/wheels.pins").read_text()
LIBTORCH = re.search(r"^cpu +torch +(\S+)", PINS, re.MULTILINE)[1]
TORCH = re.match(r"\d+\.\d+", LIBTORCH)[0]
ARROW = re.search(r"^buckets +pyarrow +(\S+)", PINS, re.MULTILINE)[1]
VERSION = f"{TORCH}.{re.search(r'^project.weft VERSION ([^ )]+)', (ROOT / 'CMakeLists.txt').read_text(), re.MULTILINE)[1]}"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


class Package:
    """One whose headers and libraries a build needs."""

    def __init__(self, name, requirement, variable, cached, file, pattern):
        self.requirement, self.variable, self.file, self.pattern = requirement, variable, file, pattern
        sites = [*sys.path, sysconfig.get_path("platlib")]  # the second also within pip's isolation, whose Python is the environment's
        self.places = [pathlib.Path(site, name) for site in sites] + [CACHE / cached]

    def folder(self):
        """Where it is, of the right version, or None."""
        given = os.environ.get(self.variable)
        if given and not self._fits(pathlib.Path(given, self.file)):
            fail(f"{self.variable} = {given} is not {self.requirement}, by its {self.file}; correct or unset it")
        return given or next((str(place) for place in self.places if self._fits(place / self.file)), None)

    def _fits(self, file):
        return file.exists() and re.search(self.pattern, file.read_text())


PACKAGES = [
    Package("torch", f"torch=={TORCH}.*", "LIBTORCH_ROOT", f"libtorch-{LIBTORCH}/torch", "include/torch/headeronly/version.h",
            r"define TORCH_VERSION_MAJOR {}\n(?s:.*)define TORCH_VERSION_MINOR {}\n".format(*TORCH.split("."))),
    Package("pyarrow", f"pyarrow=={ARROW}", "ARROW_ROOT", f"arrow-{ARROW}/pyarrow", "include/arrow/util/config.h",
            f'define ARROW_VERSION_STRING "{re.escape(ARROW)}"\n'),
]


def fail(message):
    sys.exit(f"weft: {message}")


def run(*command, **variables):
    print("+", *command, flush=True)
    status = subprocess.run(command, env={**os.environ, **variables}, cwd=ROOT).returncode
    if status:
        fail(f"{' '.join(map(str, command))} failed")


def check_machine():
    if sysconfig.get_platform() != "linux-x86_64":
        fail(f"wheels are built on Linux on x86-64, not on {sysconfig.get_platform()}")
    listed = subprocess.run([ROOT / "tools/bootstrap", "--missing"], capture_output=True, text=True)
    if listed.returncode:
        fail(listed.stderr.strip())
    missing = listed.stdout.split()
    if not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists():
        missing.append("python{}.{}-dev".format(*sys.version_info))
    if missing:
        fail(f"to build the wheel, packages are missing: apt-get install {' '.join(missing)}")


def metadata():
    """METADATA of the wheel, PKG-INFO of the sdist."""
    lines = ["Metadata-Version: 2.2", f"Name: {PROJECT['name']}", f"Version: {VERSION}", f"Summary: {PROJECT['description']}",
             f"License: {PROJECT['license']['text']}", *(f"Classifier: {classifier}" for classifier in PROJECT["classifiers"]),
             f"Requires-Python: {PROJECT['requires-python']}", f"Requires-Dist: torch=={TORCH}.*",
             "Provides-Extra: buckets", f'Requires-Dist: pyarrow=={ARROW}; extra == "buckets"', "Description-Content-Type: text/markdown"]
    return "\n".join(lines) + "\n\n" + (ROOT / PROJECT["readme"]).read_text()


def write_metadata(folder):
    """The folder weft-VERSION.dist-info, as far as it is known before a build."""
    info = pathlib.Path(folder, f"weft-{VERSION}.dist-info")
    info.mkdir()
    (info / "METADATA").write_text(metadata())
    scripts = "".join(f"{name} = {function}\n" for name, function in PROJECT["scripts"].items())
    (info / "entry_points.txt").write_text(f"[console_scripts]\n{scripts}")
    return info


# --- what pip calls ------------------------------------------------------------------------------------------------------


def get_requires_for_build_wheel(config_settings=None):
    check_machine()
    return [package.requirement for package in PACKAGES if not package.folder()]


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    return write_metadata(metadata_directory).name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    check_machine()
    build = ROOT / "build-wheel"
    found = {package.variable: package.folder() or fail(f"{package.requirement} is not installed") for package in PACKAGES}
    run("cmake", "--preset", "release", "-B", build, "-DWEFT_BUCKETS=ON", f"-DPython3_EXECUTABLE={sys.executable}",
        *(f"-DWEFT_{part}=OFF" for part in ("C", "TESTS", "BENCH", "EXAMPLES")), **found)
    run("cmake", "--build", build, "--target", "wheel_parts", **found)
    run(sys.executable, "-B", ROOT / "tools/wheel", wheel_directory, WHEEL_BUILD=str(build))
    return max(pathlib.Path(wheel_directory).glob(f"weft-{VERSION}-*.whl"), key=os.path.getmtime).name


def files_to_pack():
    """Names of what git tracks; in an unpacked sdist, which another repository may be around, of what it lists."""
    if shutil.which("git"):
        top = subprocess.run(["git", "rev-parse", "--show-toplevel"], capture_output=True, text=True, cwd=ROOT)
        if top.returncode == 0 and pathlib.Path(top.stdout.rstrip("\n")).resolve() == ROOT:
            return os.fsdecode(subprocess.run(["git", "ls-files", "-z"], stdout=subprocess.PIPE, cwd=ROOT, check=True).stdout).split("\0")[:-1]
    if not (ROOT / LIST).exists():
        fail(f"no sdist: {ROOT} is neither a clone of weft's repository that git reads nor an unpacked sdist")
    return (ROOT / LIST).read_text(encoding="utf-8").splitlines()


def build_sdist(sdist_directory, config_settings=None):
    """The files, as they are in the tree, and PKG-INFO. The same files give the same bytes."""
    files = {name: (ROOT / name).read_bytes() for name in files_to_pack() if (ROOT / name).is_file()}
    files[LIST] = "".join(f"{name}\n" for name in sorted(files)).encode()
    files["PKG-INFO"] = metadata().encode()
    folder = f"weft-{VERSION}"
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", mtime=0, fileobj=packed) as stream, tarfile.open(mode="w", fileobj=stream) as archive:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mtime = len(data), 315532800  # 1980, as in the wheel
            entry.mode = 0o755 if os.access(ROOT / name, os.X_OK) else 0o644
            archive.addfile(entry, io.BytesIO(data))
    path = pathlib.Path(sdist_directory, f"{folder}.tar.gz")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(packed.getvalue())
    return path.name


if __name__ == "__main__":
    print(pathlib.Path(sys.argv[1], build_sdist(sys.argv[1])))
