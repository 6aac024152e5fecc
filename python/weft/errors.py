"""Errors of weft. Their text is one line that says what is wrong, where, and what to do."""


def kind(value):
    """What a value is, for errors: "an int"."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def shown(value):
    """The value as Python writes it, if that is short."""
    try:
        text = repr(value)
    except Exception:  # such as an int of many digits
        return kind(value)
    return text if len(text) <= 80 and "\n" not in text else kind(value)


def is_text(value):
    """Whether C++ and files can hold it."""
    try:
        return isinstance(value, str) and "\0" not in value.encode().decode()
    except UnicodeEncodeError:
        return False


class Error(RuntimeError):
    """Any error of weft's own."""


class InputError(Error, ValueError):
    """The caller can correct it: an argument, a key of the recipe, a file."""


class CommError(Error, ConnectionError):
    """Ranks disagree, one died, or a wait passed its deadline (run.timeout_s)."""


class OutOfMemoryError(Error, MemoryError):
    """This rank ran out of memory."""


class NumericError(Error, ArithmeticError):
    """A number, such as a loss, is not finite."""


class CommandError(Error):
    """weft's command failed. `status` is its exit status; the text is the last line that it printed."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class RankError(Error):
    """A rank of weft.spawn() failed; the text is that rank's traceback."""
