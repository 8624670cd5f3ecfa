"""Python's semantics, in small functions: whatever captures them must do what CPython does.

`case.py` says what a case is, `cases/` holds them by subject, `portrait.py` says what of a program can be seen, `runner.py` runs both
sides and compares, `isolate.py` does it in processes that may crash, `python -m semantics --help` is the command.
"""
