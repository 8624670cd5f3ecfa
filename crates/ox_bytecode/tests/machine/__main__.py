"""A slow machine for the instruction set, to compare it with the interpreter that compiled the code.

    python machine FILE TEXTS

TEXTS holds the decoded code objects of FILE: a line `code NAME` and the text form for each. The module is run twice, by the interpreter and
by the machine, and each of its functions `case_...` too; their results (or exceptions) must be equal. The functions that the machine makes
are run by the machine. Prints the instructions that were run.
"""

import pathlib
import sys

from flow import Exceptions
from frame import Frame
from program import Programs


def main():
    file, texts = map(pathlib.Path, sys.argv[1:])
    programs = Programs(file.stem, texts.read_text())
    code = compile(file.read_bytes(), file.name, "exec", dont_inherit=True)
    native, ours = {"__name__": "case"}, {"__name__": "case"}
    exec(code, native)
    module = Frame(programs, code, ours, ours, ())
    module.start()
    assert native.keys() - {"__builtins__"} == ours.keys(), native.keys() ^ ours.keys()
    cases = [name for name in native if name.startswith("case_")]
    wrong = [name for name in cases if not agrees(name, native[name], lambda: module.call(ours[name]))]
    print("ran", *sorted(Frame.ran))
    sys.exit(bool(wrong or not cases))


def agrees(name, native, ours):
    expected, found = observed(native), observed(ours)
    if expected != found:
        print(f"{name}\n  interpreter {expected}\n  machine     {found}")
    return expected == found


def observed(function):
    """What one can see of a call."""
    Exceptions.handled = None
    try:
        return "returned", repr(function())
    except Exception as error:
        return "raised", type(error).__name__, str(error)


if __name__ == "__main__":
    main()
