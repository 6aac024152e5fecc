#!/usr/bin/env -S python3 -B
"""tests/pages/names_test.py WEFT: checks that names on pages exist (recipe keys, options, metrics, identifiers in code spans, links
with their headings), and that each key, option, metric, pass and WEFT_* environment variable is on a page."""
import functools
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from page_blocks import blocks, joined, listed, pages, prompted, prose  # noqa: E402

SPAN = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^()\s]+)\)")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
IDENTIFIER = re.compile(r"(?:weft::)?([A-Za-z_]\w*(?:::\w+)*)(?:\(\))?")
# Options of other programs that code spans name.
OTHERS_OPTIONS = {"--shm-size", "--stop-timeout", "--read-only", "--tmpfs"}  # docker run
# Identifiers of other programs and languages.
OTHERS = {"CamelCase", "snake_case", "trailing_", "gcc", "PIP_INDEX_URL", "exif_transpose", "row_group_size", "my_model"}
STAND_IN = re.compile(r"NAME")  # for a name that the reader chooses
SOURCES = ("weft", "python", "tests", "tools", "bench", "examples", "recipes", "hardware", "cmake", "container", "monitoring", ".ci", "Makefile",
           "CMakeLists.txt", "CMakePresets.json", ".clang-tidy", "docs/Doxyfile")


def sources():
    """Files that may define a name; not this one, which lists names of others."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *SOURCES], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / name for name in names.stdout.splitlines() if not name.endswith((".md", ".svg"))]
    return [path for path in paths if path.exists() and path != pathlib.Path(__file__).resolve()]


class Known:
    """What the command and the sources have."""

    def __init__(self, weft):
        script = subprocess.run([weft, "completion", "bash"], capture_output=True, text=True, check=True).stdout
        self.options = {}
        for place, words in re.findall(r"^    '([^']*)'\) words='[^']*' options='([^']*)'", script, re.MULTILINE):
            self.options[place.strip("/").replace("/", " ")] = set(words.split())
        self.commands = set(self.options)
        self.keys = set(re.search(r"words='(model\.[^']*)'", script)[1].replace("=", "").split())
        # A key of a table within a section (batch.ramp.steps) is in the table of rules alone.
        self.keys |= set(re.findall(r'\{"(\w+(?:\.\w+)+)"', (ROOT / "weft/recipe/read/key_rules.cpp").read_text(encoding="utf-8")))
        self.tables = {key.rsplit(".", 1)[0] for key in self.keys}
        self.sections = {key.split(".")[0] for key in self.keys}
        texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in sources()}
        self.text = "\n".join(texts.values())
        self.words = set(re.findall(r"\w+", self.text)) | {path.stem for path in texts}
        self.words |= {f"test_{folder.name}" for folder in (ROOT / "tests").iterdir()}
        health = (ROOT / "weft/cli/health/health_text.cpp").read_text(encoding="utf-8")
        self.metrics = {f"weft_{name}" for name in re.findall(r'\b(?:begin|one)\(\s*"(\w+)"', health)}
        self.passes = {path.stem for path in (ROOT / "weft/program/passes").glob("*.h")}
        in_weft = "\n".join(text for path, text in texts.items() if path.is_relative_to(ROOT / "weft") and path.suffix == ".cpp")
        self.variables = set(re.findall(r'"(WEFT_[A-Z_]+)"', in_weft))


@functools.cache
def anchors(page):
    """Headings as GitHub names them."""
    found, counts = set(), {}
    for _, line in prose(page):
        if heading := re.match(r"#+ +(.*?) *$", line):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            name = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            found.add(f"{name}-{counts[name]}" if name in counts else name)
            counts[name] = counts.get(name, 0) + 1
    return found


def link_errors(page):
    for number, line in prose(page):
        for target in LINK.findall(SPAN.sub("", line)):
            if re.match(r"\w+:", target):
                continue
            path, _, anchor = target.partition("#")
            other = (page.parent / path).resolve() if path else page
            if not other.exists():
                yield number, f"{target}, which it links to, does not exist"
            elif anchor and other.suffix == ".md" and anchor not in anchors(other):
                yield number, f"{target}, which it links to, is not a heading there"


def toml_keys(table, prefix=""):
    for key, value in table.items():
        if isinstance(value, dict):
            yield from toml_keys(value, f"{prefix}{key}.")
        elif isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
            for entry in value:
                yield from toml_keys(entry, f"{prefix}{key}.")
        else:
            yield prefix + key


def block_errors(block, known):
    if block.kind == "toml":
        try:
            keys = set(toml_keys(tomllib.loads("\n".join(block.lines))))
        except tomllib.TOMLDecodeError as error:
            yield f"its TOML does not parse: {error}"
            return
        if all(key.split(".")[0] in known.sections for key in keys):
            for key in sorted(keys - known.keys - {"layout"}):  # layout = "auto"
                yield f"{key} is not a key"
    if block.kind == "sh":
        for command in joined(block.lines):
            yield from command_errors(command, known)
    elif block.kind == "console":
        for prompt, output in listed(block):
            refusals = " ".join(line for line in output if line.startswith("weft: "))
            for error in command_errors(prompted(prompt), known):
                if not (error.startswith("--set ") and error.split()[1] in refusals):  # the page shows what an unknown key gives
                    yield error


def command_errors(command, known):
    """Options and keys of each `weft ...` in a command line."""
    for call in re.findall(r"(?:^|[\s(;|&/])weft ((?:(?!\bweft )[^|;&>#])*)", command):
        words = call.split(" -- ")[0].split()
        name = " ".join(words[:2]) if " ".join(words[:2]) in known.commands else words[0] if words else ""
        if name not in known.commands:
            if name and not name.startswith("-") and re.fullmatch(r"[a-z0-9]+", name):
                yield f"weft {name} is not a command"
            continue
        for option in OPTION.findall(" ".join(words)):
            if option not in known.options[name]:
                yield f"weft {name} does not have {option}"
        for key in re.findall(r"--set[ =]+([\w.]+)=", call):
            if key not in known.keys:
                yield f"--set {key} is not a key"


def span_errors(page, known):
    every_option = set().union(*known.options.values())
    for number, line in prose(page):
        for span in SPAN.findall(line):
            if span.startswith("weft ") or " weft " in span:
                yield from ((number, error) for error in command_errors(span, known))
            elif re.match(r"--[a-z]", span):
                option = OPTION.match(span)[0]
                if option not in every_option and option not in OTHERS_OPTIONS and option not in known.text:
                    yield number, f"`{span}`: {option} does not exist"
            elif (key := re.fullmatch(r"([a-z_]+)\.([a-z_]+(?:\.[a-z_]+)?)(?: *=.*)?", span)) and key[1] in known.sections:
                whole = f"{key[1]}.{key[2]}"
                if whole not in known.keys | known.tables and not (ROOT / span).exists() and key[2] not in ("toml", "csv", "h", "cpp", "safetensors"):
                    yield number, f"`{span}`: {whole} is not a key"
            elif re.fullmatch(r"[A-Za-z]+\d+\w?|_\w+", span):  # an instruction of a micro-batch, the end of a name
                continue
            elif name := IDENTIFIER.fullmatch(span):
                for part in name[1].split("::"):
                    if not STAND_IN.search(part) and part not in known.words | known.metrics | OTHERS:
                        yield number, f"`{span}`: {part} is not in the sources"


def missing(known, text):
    for key in sorted(known.keys):
        section, name = key.split(".", 1)
        if not re.search(rf"(?<![\w.]){re.escape(key)}(?!\w)", text) and not re.search(rf"`{re.escape(name)}(?: *=[^`]*)?`", text):
            yield f"the key {key} is on no page"
    for command, options in sorted(known.options.items()):
        for option in sorted(options - {"--help", "--version"}):
            if not re.search(rf"(?<![\w-]){option}(?![\w-])", text):
                yield f"weft {command} {option} is on no page"
    for metric in sorted(known.metrics):
        if not re.search(rf"\b{metric}\b", text):
            yield f"the metric {metric} is on no page"
    program = (ROOT / "docs/program.md").read_text(encoding="utf-8")
    for name in sorted(known.passes):
        if not re.search(rf"\b(\w+_)?{name}\b", program):
            yield f"the pass {name} is not in docs/program.md"
    for variable in sorted(known.variables):
        if not re.search(rf"\b{variable}\b", text):
            yield f"the variable {variable} is on no page"
    named = set(re.findall(r"\bweft_[a-z_]+\b", text))
    for name in sorted(named - known.metrics):
        if name not in known.words:
            yield f"{name}, which a page names, is not in the sources"


def main():
    known, errors = Known(sys.argv[1]), []
    for page in pages():
        name = page.relative_to(ROOT)
        errors += [f"{name}:{number}: {error}" for number, error in link_errors(page)]
        errors += [f"{name}:{number}: {error}" for number, error in span_errors(page, known)]
        for block in blocks(page):
            errors += [f"{block.place}: {error}" for error in block_errors(block, known)]
    errors += missing(known, "\n".join(page.read_text(encoding="utf-8") for page in pages()))
    if errors:
        sys.exit("\n".join(errors))
    print(f"pages: {len(known.keys)} keys, {sum(map(len, known.options.values()))} options, {len(known.metrics)} metrics")


if __name__ == "__main__":
    main()
