"""Lines that are printed. What servers answered is in them, and a terminal obeys some characters."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TextIO


def say(*lines: str, file: TextIO | None = None) -> None:
    """Print lines, to stdout where no file is given."""
    file = file or sys.stdout
    try:
        print(*map(printable, lines), sep="\n", file=file, flush=True)
    except BrokenPipeError:  # nobody reads on, as behind `| head`; there may be reports to write
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), file.fileno())


def printable(text: str) -> str:
    """The same with escapes for controls, line ends, and what turns the direction of text or is not seen."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)
