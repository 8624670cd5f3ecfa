"""The stack, constants, variables and modules."""

import types

NULL = type("Null", (), {"__repr__": lambda self: "NULL"})()


class Stack:
    def push(self, *values):
        self.stack.extend(values)

    def pop(self):
        return self.stack.pop()

    def take(self, count):
        taken = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return taken

    def PopTop(self):
        self.pop()

    def PushNull(self):
        self.push(NULL)

    def Copy(self, n):
        self.push(self.stack[-n])

    def Swap(self, n):
        self.stack[-1], self.stack[-n] = self.stack[-n], self.stack[-1]


class Variables:
    def name(self, index):
        return self.code.co_names[index]

    def LoadConst(self, index):
        self.push(self.code.co_consts[index])

    def LoadFast(self, slot):
        self.push(self.bound(self.slots[slot], slot))

    def bound(self, value, slot):
        if value is NULL:
            raise UnboundLocalError(f"cannot access local variable {self.slot_names[slot]!r} where it is not associated with a value")
        return value

    def StoreFast(self, slot):
        self.slots[slot] = self.pop()

    def DeleteFast(self, slot):
        self.bound(self.slots[slot], slot)
        self.slots[slot] = NULL

    def LoadFastAndClear(self, slot):
        self.push(self.slots[slot])
        self.slots[slot] = NULL

    def MakeCell(self, slot):
        value = self.slots[slot]
        self.slots[slot] = types.CellType() if value is NULL else types.CellType(value)

    def CopyFreeVars(self, n):
        assert n == len(self.closure)
        self.slots[len(self.slots) - n :] = self.closure

    def content(self, slot):
        try:
            return self.slots[slot].cell_contents
        except ValueError:
            name = self.slot_names[slot]
            if name in self.code.co_freevars:
                message = f"cannot access free variable {name!r} where it is not associated with a value in enclosing scope"
                raise NameError(message) from None
            self.bound(NULL, slot)

    def LoadDeref(self, slot):
        self.push(self.content(slot))

    def StoreDeref(self, slot):
        self.slots[slot].cell_contents = self.pop()

    def DeleteDeref(self, slot):
        self.content(slot)
        del self.slots[slot].cell_contents

    def LoadFromDictOrDeref(self, slot):
        mapping, name = self.pop(), self.slot_names[slot]
        self.push(mapping[name] if name in mapping else self.content(slot))

    def find(self, index, *mappings):
        name = self.name(index)
        for mapping in (*mappings, self.globals, vars(__import__("builtins"))):
            if name in mapping:
                return mapping[name]
        raise NameError(f"name {name!r} is not defined")

    def LoadFromDictOrGlobals(self, index):
        self.push(self.find(index, self.pop()))

    def LoadGlobal(self, index):
        self.push(self.find(index))

    def StoreGlobal(self, index):
        self.globals[self.name(index)] = self.pop()

    def DeleteGlobal(self, index):
        del self.globals[self.name(index)]

    def LoadName(self, index):
        self.push(self.find(index, self.locals))

    def StoreName(self, index):
        self.locals[self.name(index)] = self.pop()

    def DeleteName(self, index):
        del self.locals[self.name(index)]

    def LoadLocals(self):
        self.push(self.locals)

    def LoadBuildClass(self):
        self.push(self.build_class)

    def LoadAssertionError(self):
        self.push(AssertionError)

    def SetupAnnotations(self):
        self.locals.setdefault("__annotations__", {})

    def ImportName(self, index):
        level, names = self.take(2)
        self.push(__import__(self.name(index), self.globals, self.locals, names, level))

    def ImportFrom(self, index):
        self.push(getattr(self.stack[-1], self.name(index)))
