"""Writes code objects, and what `dis` says about them, as text for the tests of this crate.

    python dump.py corpus FOLDER           every code object of the files of the corpus
    python dump.py library STEP [FIRST]    every STEP-th file of the standard library

A file of the corpus named `*_312.py` needs that version; one named `single*.py` is compiled as if it were typed in.

First come the interpreter's version and opcodes. A record is a line for each field, then a line for each instruction (offset, opcode, operand, target of the jump, stack effect without and
with the jump, line, end line, column, end column) and each exception handler (start, end, target, depth, whether the place is pushed).
"""

import dis
import pathlib
import re
import sys
import sysconfig
import types
import warnings


def main():
    # Old files of the library have doubtful escapes.
    warnings.simplefilter("ignore")
    what, *arguments = sys.argv[1:]
    print("python", *sys.version_info[:3])
    print("opcodes", *sorted(name for name, number in dis.opmap.items() if number < 256))
    if what == "corpus":
        files = sorted(path for path in pathlib.Path(arguments[0]).glob("*.py") if is_for_us(path.stem))
    else:
        step, first = [int(a) for a in arguments] + [0] * (2 - len(arguments))
        library = pathlib.Path(sysconfig.get_path("stdlib"))
        files = sorted(path for path in library.rglob("*.py") if "site-packages" not in path.parts)[first::step]
    for path in files:
        for code in codes_of(path):
            write(path.stem, code)


def is_for_us(stem):
    needed = re.search(r"_3(\d\d)$", stem)
    return not needed or sys.version_info >= (3, int(needed[1]))


def codes_of(path):
    try:
        source = path.read_bytes()
        top = compile(source, path.name, "single" if path.stem.startswith("single") else "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        # The library has files with errors, to test the compiler with.
        return
    todo = [top]
    while todo:
        code = todo.pop()
        yield code
        todo += [const for const in reversed(code.co_consts) if isinstance(const, types.CodeType)]


def write(stem, code):
    print("code", f"{stem}:{code.co_qualname}@{code.co_firstlineno}".replace(" ", "_"))
    print("arguments", code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    print("flags", code.co_flags)
    print("stack", code.co_stacksize)
    print("line", code.co_firstlineno)
    print("tables", len(code.co_names), len(code.co_consts))
    for names in ("varnames", "cellvars", "freevars"):
        print(names, *getattr(code, "co_" + names))
    print("slots", *slots(code))
    print("bytes", code.co_code.hex())
    print("exceptions", code.co_exceptiontable.hex())
    print("lines", code.co_linetable.hex())
    jumps = {*dis.hasjrel, *dis.hasjabs}
    for instruction in dis.get_instructions(code):
        write_instruction(instruction, instruction.opcode in jumps)
    for entry in dis.Bytecode(code).exception_entries:
        print("h", entry.start, entry.end, entry.target, entry.depth, int(entry.lasti))


def slots(code):
    """The names of the slots of the frame, in their order."""
    count = len({*code.co_varnames, *code.co_cellvars}) + len(code.co_freevars)
    return [code._varname_from_oparg(slot) for slot in range(count)]


def write_instruction(i, is_jump):
    operand = i.arg if i.opcode >= dis.HAVE_ARGUMENT else None
    effects = [dis.stack_effect(i.opcode, operand, jump=jump) for jump in (False, True)]
    target = i.argval if is_jump else "-"
    position = ["-" if p is None else p for p in i.positions]
    print("i", i.offset, i.opname, 0 if i.arg is None else i.arg, target, *effects, *position)


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    main()
