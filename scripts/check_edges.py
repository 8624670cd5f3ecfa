"""Fails when a crate depends on one that it must not know, or uses `unsafe` where it may not.

    python scripts/check_edges.py

Dependencies point one way: ir <- ops <- the stages; code generators and the runtime see ir only; stages never import one another;
the driver joins them; only capture and the extension link pyo3.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

ALLOWED = {
    "ox_ir": set(),
    "ox_ops": {"ox_ir"},
    "ox_bytecode": set(),
    "ox_gauge": {"ox_ops"},
    "ox_capture": {"ox_bytecode", "ox_gauge", "ox_ops"},
    "ox_autodiff": {"ox_ir", "ox_ops"},
    "ox_optimise": {"ox_ir", "ox_ops"},
    "ox_schedule": {"ox_ir", "ox_ops"},
    "ox_codegen_cpu": {"ox_ir"},
    "ox_codegen_cuda": {"ox_ir"},
    "ox_runtime": {"ox_ir"},
    "ox_store": set(),
    "ox_driver": {"ox_ir", "ox_ops", "ox_autodiff", "ox_optimise", "ox_schedule", "ox_codegen_cpu", "ox_codegen_cuda", "ox_runtime", "ox_store"},
    "ox_py": {"ox_ir", "ox_ops", "ox_capture", "ox_driver", "ox_runtime"},
    "ox_testing": {"ox_ir", "ox_ops"},
}
MAY_BE_UNSAFE = {"ox_runtime", "ox_codegen_cpu", "ox_codegen_cuda", "ox_gauge", "ox_capture", "ox_py"}
MAY_LINK_PYO3 = {"ox_capture", "ox_py"}


def crates():
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline"]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)["packages"]


def wrong_edges(package):
    """Edges of shipped code; what tests use (dev-dependencies) is free."""
    name = package["name"]
    needs = {d["name"] for d in package["dependencies"] if d["kind"] is None}
    if name not in ALLOWED:
        yield f"{name}: not listed in scripts/check_edges.py"
        return
    for other in sorted(n for n in needs if n.startswith("ox_")):
        if other not in ALLOWED[name]:
            yield f"{name} must not depend on {other}"
    if "pyo3" in needs and name not in MAY_LINK_PYO3:
        yield f"{name} must not link pyo3"


def wrong_unsafe(package):
    if package["name"] in MAY_BE_UNSAFE:
        return
    for path in sorted(pathlib.Path(package["manifest_path"]).parent.glob("src/**/*.rs")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = line.split("//")[0]
            if re.search(r"\bunsafe\b(?!\s+extern)", code):
                yield f"{path.relative_to(ROOT)}:{number}: `unsafe` outside of {', '.join(sorted(MAY_BE_UNSAFE))}"


def main():
    problems = [p for package in crates() for p in (*wrong_edges(package), *wrong_unsafe(package))]
    print("\n".join(problems) or "edges: ok")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
