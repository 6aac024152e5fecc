"""The pages, and their fenced blocks, pictures and prose, for tools/refresh_pages, tools/check_layers and tests/pages/names_test.py."""
import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^( *)```(\w*)\s*$")
OPTIONS = re.compile(r"^ *<!-- (listing|commands|picture): (.*?) *-->\s*$")


def pages(root=ROOT):
    """Every page except the changelog, which names things that no longer exist."""
    patterns = ("*.md", "docs/*.md", "bench/**/*.md", "examples/**/*.md")
    return [page for pattern in patterns for page in sorted(root.glob(pattern)) if page.name != "CHANGELOG.md"]


@dataclasses.dataclass
class Block:
    """A fenced block: lines[begin:end] of its page are the lines between the fences."""

    page: pathlib.Path
    begin: int
    end: int
    kind: str
    options: str
    lines: list

    @property
    def place(self):
        return f"{self.page.relative_to(ROOT)}:{self.begin + 1}"


def blocks(page):
    lines, found, options, opened = page.read_text(encoding="utf-8").splitlines(), [], "", None
    for number, line in enumerate(lines):
        if fence := FENCE.match(line):
            if opened is None:
                opened = (number + 1, fence[2], options, len(fence[1]))
            else:
                begin, kind, asked, indent = opened
                found.append(Block(page, begin, number, kind, asked, [text[indent:] for text in lines[begin:number]]))
                opened = None
        elif opened is None and line.strip():
            comment = OPTIONS.match(line)
            options = comment[2] if comment and comment[1] != "picture" else ""
    return found


def pictures(page):
    """(line, command) of each picture that a command draws."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return [(number + 1, found[2]) for number, line in enumerate(lines) if (found := OPTIONS.match(line)) and found[1] == "picture"]


def prose(page):
    """(line, text) outside of fenced blocks."""
    inside = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            yield number, line


def joined(lines):
    """Commands in the lines: a line that ends in a backslash is joined to the next; comment lines are dropped."""
    commands, parts = [], []
    for line in lines:
        parts.append(line.removesuffix("\\").strip() if line.endswith("\\") else line.strip())
        if not line.endswith("\\"):
            commands.append(" ".join(parts))
            parts = []
    return [command for command in commands if command and not command.startswith("#")]


def listed(block):
    """[(prompt lines, output lines)] of a block ```console."""
    parts = []
    for line in block.lines:
        begins = line.startswith("$ ")
        if begins:
            parts.append(([], []))
        if begins or (parts and parts[-1][0][-1].endswith("\\") and not parts[-1][1]):
            parts[-1][0].append(line)
        elif parts:
            parts[-1][1].append(line)
    return parts


def prompted(prompt):
    """The command of prompt lines."""
    return joined([line.removeprefix("$ ") for line in prompt])[0]
