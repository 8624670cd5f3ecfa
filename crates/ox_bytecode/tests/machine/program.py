"""The text form of code objects, read back."""

import re

LINE = re.compile(r"\s*\d+\s+(?:(?:\d+|-)\s+)?([A-Z]\w*)(?: (.*))?$")
HANDLER = re.compile(r"(\d+)\.\.(\d+) -> (\d+) depth=(\d+)( index)?$")


class Program:
    """The text form of a code object."""

    def __init__(self, lines):
        self.instructions, self.handlers = [], []
        for line in lines[1:]:
            if handler := HANDLER.match(line):
                *numbers, index = handler.groups()
                self.handlers.append((*map(int, numbers), index is not None))
            else:
                name, operands = LINE.match(line).groups()
                self.instructions.append((name, parse(re.sub(r" ?\(.*\)$", "", operands or ""))))

    def handler(self, index):
        return next((h for h in self.handlers if h[0] <= index < h[1]), None)


def parse(text):
    words = text.replace("-> ", "").replace("keywords=", "").split()
    return [int(word) if word.isdigit() else word for word in words]


class Programs:
    """The programs of a file, by the names that `dump.py` gives to code objects."""

    def __init__(self, stem, text):
        self.stem, self.programs = stem, {}
        for part in re.split(r"^code ", text, flags=re.M)[1:]:
            name, *lines = part.rstrip("\n").split("\n")
            self.programs[name] = Program(lines)

    def of(self, code):
        return self.programs.get(f"{self.stem}:{code.co_qualname}@{code.co_firstlineno}".replace(" ", "_"))
