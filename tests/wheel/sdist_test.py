#!/usr/bin/env -S python3 -B
"""tests/wheel/sdist_test.py BUILD CACHE: weft's sdist (python/weft_build.py): its contents, what it asks for where something is missing,
and that pip builds from it the wheel that `make wheel` makes.

The build takes a quarter of an hour without the compiler cache, whose entries depend on the folder of the sources: so it sees the unpacked
sdist in the repository's place, where BUILD's files were compiled.
"""
import email
import os
import pathlib
import re
import shutil
import sys
import tarfile
import tempfile
import unittest
import zipfile

from environment import ROOT, run

REQUIRED = "import sys; sys.path.insert(0, 'python'); import weft_build; print(weft_build.get_requires_for_build_wheel())"
VERSION_OF_TORCH = "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR {}\n"


class Sdist(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir="/var/tmp")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        found = re.search(r"^_Python3_EXECUTABLE:INTERNAL=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)[1]
        cls.python = run([found, "-c", "import sys; print(sys.executable)"]).strip()  # it may be a script that looks at the folder it is in
        cls.sdist = cls.make_sdist(cls.folder)
        with tarfile.open(cls.sdist) as archive:
            cls.entries = archive.getmembers()
            archive.extractall(cls.folder)
        cls.sources = cls.folder / cls.sdist.name.removesuffix(".tar.gz")

    @classmethod
    def make_sdist(cls, folder):
        return pathlib.Path(run([cls.python, "-B", ROOT / "python/weft_build.py", folder]).strip())

    def test_contents(self):
        own = re.search(r"^project\(weft VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
        self.assertEqual(self.sources.name, f"weft-2.11.{own}")
        rows = [line.split(maxsplit=3) for line in run(["git", "-C", ROOT, "ls-files", "--stage"]).splitlines()]
        modes = {"PKG-INFO": 0o644, "SOURCES.txt": 0o644, **{file: int(mode[3:], 8) for mode, _, _, file in rows if (ROOT / file).exists()}}
        self.assertEqual([entry.name for entry in self.entries], [f"{self.sources.name}/{file}" for file in sorted(modes)])
        for entry, (_, mode) in zip(self.entries, sorted(modes.items())):
            self.assertEqual((entry.isreg(), entry.mode, entry.uid, entry.uname), (True, mode, 0, ""), entry.name)
        self.assertEqual(self.make_sdist(self.folder / "again").read_bytes(), self.sdist.read_bytes())
        message = email.message_from_string((self.sources / "PKG-INFO").read_text())
        self.assertEqual((message["Name"], message["Version"], message.get_all("Requires-Dist")),
                         ("weft", f"2.11.{own}", ["torch==2.11.*", 'pyarrow==26.0.0; extra == "buckets"']))
        self.assertGreater(len(message.get_payload()), 1000)

    def test_of_an_unpacked_one(self):
        """Also in another repository, which tracks none of it."""
        run(["git", "init", "--quiet", self.folder])
        self.addCleanup(shutil.rmtree, self.folder / ".git")
        for made in ("build-wheel/made", "dist/weft.tar.gz", ".venv/made"):
            (self.sources / made).parent.mkdir()
            (self.sources / made).touch()
        again = run([self.python, "-B", self.sources / "python/weft_build.py", self.folder / "unpacked"]).strip()
        self.assertEqual(pathlib.Path(again).read_bytes(), self.sdist.read_bytes())
        (self.sources / "SOURCES.txt").rename(self.folder / "SOURCES.txt")
        self.addCleanup((self.folder / "SOURCES.txt").rename, self.sources / "SOURCES.txt")
        printed = run([self.python, "-B", self.sources / "python/weft_build.py", self.folder / "unpacked"], 1)
        self.assertRegex(printed, rf"^weft: no sdist: {self.sources} is neither [^\n]*\n$")

    def requirements(self, python, status=0, **variables):
        kept = {key: value for key, value in os.environ.items() if key not in ("LIBTORCH_ROOT", "ARROW_ROOT", "PYTHONPATH")}
        return run([python, "-B", "-c", REQUIRED], status, env={**kept, **variables}, cwd=self.sources)

    def test_requirements(self):
        run([self.python, "-m", "venv", "--without-pip", self.folder / "venv"])
        python, lost = self.folder / "venv/bin/python", {"XDG_CACHE_HOME": "/nonexistent"}
        self.assertEqual(self.requirements(python, XDG_CACHE_HOME=str(CACHE.parent)), "[]\n")
        self.assertEqual(self.requirements(python, **lost), "['torch==2.11.*', 'pyarrow==26.0.0']\n")
        given = {"LIBTORCH_ROOT": f"{CACHE}/libtorch-2.11.0/torch", "ARROW_ROOT": f"{CACHE}/arrow-26.0.0/pyarrow"}
        self.assertEqual(self.requirements(python, **lost, **given), "[]\n")
        for variable in given:
            self.assertEqual(self.requirements(python, 1, **lost, **{**given, variable: "/a"}).split(" is not ")[0], f"weft: {variable} = /a")
        installed = next((self.folder / "venv/lib").glob("python*")) / "site-packages/torch/include/torch/headeronly/version.h"
        installed.parent.mkdir(parents=True)
        for minor, expected in [(11, "['pyarrow==26.0.0']\n"), (12, "['torch==2.11.*', 'pyarrow==26.0.0']\n")]:
            installed.write_text(VERSION_OF_TORCH.format(minor))
            self.assertEqual(self.requirements(python, **lost), expected)

    def test_missing_packages(self):
        tools = self.folder / "tools"
        tools.mkdir()
        (tools / "dpkg-query").write_text("#!/bin/sh\necho 'installed cmake'\n")
        (tools / "dpkg-query").chmod(0o755)
        printed = self.requirements(self.python, 1, PATH=f"{tools}:{os.environ['PATH']}")
        self.assertRegex(printed, r"^weft: to build the wheel, packages are missing: apt-get install g\+\+ libarchive-dev [^\n]* zlib1g-dev\n$")

    def test_same_wheel(self):
        expected = pathlib.Path(run([ROOT / "tools/wheel", self.folder / "expected"], env={**os.environ, "WHEEL_BUILD": str(BUILD)}).strip())
        namespace = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
        pip = [self.python, "-m", "pip", "--isolated", "--disable-pip-version-check", "wheel", "--no-index", "--no-deps", "-w", self.folder / "built", ROOT]
        run([*namespace, "sh", "-c", 'mount --bind "$0" "$1" && shift && cd / && exec "$@"', self.sources, ROOT, *pip], deadline_s=550,
            env={**os.environ, "LIBTORCH_ROOT": f"{CACHE}/libtorch-2.11.0/torch", "ARROW_ROOT": f"{CACHE}/arrow-26.0.0/pyarrow"})
        with zipfile.ZipFile(expected) as one, zipfile.ZipFile(self.folder / "built" / expected.name) as other:
            self.assertEqual(other.namelist(), one.namelist())
            self.assertEqual([name for name in one.namelist() if one.read(name) != other.read(name)], [])


if __name__ == "__main__":
    os.umask(0o022)
    BUILD, CACHE = pathlib.Path(sys.argv.pop(1)).resolve(), pathlib.Path(sys.argv.pop(1))
    unittest.main(verbosity=1)
