#!/usr/bin/env -S python3 -B
"""docs/gallery.md has a picture for each that gallery.py makes, and no other; they are small."""
import pathlib
import re
import sys
import tempfile
import unittest

import gallery

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT = ROOT / "docs" / "images" / "gallery"
MOST_BYTES = 60_000


class Gallery(unittest.TestCase):
    def test_page_script_and_folder_have_the_same_pictures(self):
        with tempfile.TemporaryDirectory() as made:
            gallery.make(WEFT, made)
            names = sorted(path.name for path in pathlib.Path(made).iterdir())
            sizes = {path.name: path.stat().st_size for folder in (pathlib.Path(made), KEPT) for path in folder.iterdir()}
        self.assertEqual(sorted(path.name for path in KEPT.iterdir()), names)
        shown = re.findall(r"\]\(images/gallery/([^)]+)\)", (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8"))
        self.assertEqual(sorted(shown), names)
        self.assertEqual({name: size for name, size in sizes.items() if not 500 < size <= MOST_BYTES}, {})


if __name__ == "__main__":
    WEFT = sys.argv.pop(1)
    unittest.main()
