"""Recipes as TOML."""
import json
import math

from weft.errors import InputError, is_text, kind, shown


def toml_of(sections):
    """The text of a recipe of plain data: {section: {key: value}}."""
    try:
        return _toml_of(sections)
    except RecursionError:
        raise InputError("recipe: a list or dict in it contains itself") from None


def _toml_of(sections):
    lines = []
    for name, values in sections.items():
        if isinstance(values, dict):
            tables = {key: value for key, value in values.items() if _is_tables(value)}
            lines.append(f"[{name}]")
            lines += [f"{_key(key)} = {_value(value, f'{name}.{key}')}" for key, value in values.items() if key not in tables]
            for key, rows in tables.items():
                for row in rows:
                    lines.append(f"[[{name}.{key}]]")
                    lines += [f"{_key(inner)} = {_value(value, f'{name}.{key}.{inner}')}" for inner, value in row.items()]
        elif _is_tables(values):
            for row in values:
                lines.append(f"[[{name}]]")
                lines += [f"{_key(key)} = {_value(value, f'{name}.{key}')}" for key, value in row.items()]
        else:
            raise InputError(f"recipe: '{name}' is {kind(values)}; a section is a dict of its keys")
    return "".join(f"{line}\n" for line in lines)


def _is_tables(value):
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _key(key):
    return _value(str(key), "")


def _value(value, where):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if value.bit_length() > 10000:  # more than Python writes
            raise InputError(f"{where} is an int of {value.bit_length()} bits; give a smaller one")
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan")
    if isinstance(value, str):
        if not is_text(value.replace("\0", "")):  # a NUL is refused with its place
            raise InputError(f"{where} is {shown(value)}, which is no text in UTF-8")
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(part, where) for part in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_value(part, f'{where}.{key}')}" for key, part in value.items()) + "}"
    if hasattr(value, "__fspath__"):
        return _value(value.__fspath__(), where)
    raise InputError(f"{where} is {kind(value)}; a recipe's values are numbers, texts, true or false, and lists of them")
