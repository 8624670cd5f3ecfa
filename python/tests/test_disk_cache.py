"""Compiled kernels are kept on disk: the next process compiles nothing, and whatever happens to the folder, results are right."""

import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What a process does: a function forward, a model's training step, one with sizes that vary; what came of it, and what was compiled.
PROGRAM = """
import json, sys, warnings
import torch, oxytorch
{before}
found = []
def done(*results):
    report = oxytorch.last_compile()
    found.append(dict(sums=[r.double().sum().item() for r in results], compiled=report["kernels_compiled"], read=report["kernels_read"]))
torch.manual_seed(0)
x = torch.randn(64, 48)
with warnings.catch_warnings(record=True) as caught, torch.no_grad():
    warnings.simplefilter("always")
    f = oxytorch.compile(lambda x: ((x * 2 + 1).softmax(-1), x.cumsum(0).exp()){options})
    done(*f(x))
    {between}
    general = oxytorch.compile(lambda x: torch.nn.functional.layer_norm(x, x.shape[1:]).relu(), dynamic=True{more})
    done(general(x), general(x[1:, :7]))
model = torch.nn.Sequential(torch.nn.Linear(48, 48), torch.nn.GELU(), torch.nn.LayerNorm(48))
step = oxytorch.compile(model{options})
step(x).square().sum().backward()
done(*[p.grad for p in model.parameters()])
told = [str(w.message) for w in caught if "oxytorch" in str(w.message)]
print(json.dumps(dict(found=found, told=told)))
"""


def start(folder, before="", between="", options=None, **environment):
    more = "" if options is None else f", options={options!r}"
    program = PROGRAM.format(before=before, between=between or "pass", options=more, more=more)
    env = os.environ | dict(OXYTORCH_CACHE_DIR=str(folder), OXYTORCH_DISK_CACHE="1", PYTHONPATH=str(ROOT)) | environment
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def finish(process):
    out, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    return json.loads(out.splitlines()[-1]), errors


def run(folder, **how):
    return finish(start(folder, **how))[0]


def compiled(result):
    return [part["compiled"] for part in result["found"]]


def read(result):
    return [part["read"] for part in result["found"]]


def sums(result):
    return [part["sums"] for part in result["found"]]


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """What the first process does, and the folder that it leaves."""
    folder = tmp_path_factory.mktemp("caches") / "oxytorch"
    return run(folder), folder


@pytest.fixture
def kept(first, tmp_path):
    """A folder as the first process has left it."""
    return pathlib.Path(shutil.copytree(first[1], tmp_path / "oxytorch"))


def test_the_next_process_compiles_nothing(first):
    result, folder = first
    assert min(compiled(result)) > 0 and max(read(result)) == 0
    again = run(folder)
    assert compiled(again) == [0, 0, 0] and read(again) == compiled(result)
    assert sums(again) == sums(result)
    assert again["told"] == result["told"] == []


def test_only_the_user_may_read_it(first):
    folder = first[1]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(part.stat().st_mode) for part in folder.iterdir()} == {0o700}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files(folder)} == {0o600}


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b[:-9] + bytes([b[-9] ^ 1]) + b[-8:], lambda b: b"\0" * len(b)])
def test_damaged_files_are_compiled_anew(first, kept, damage):
    for file in files(kept):
        file.write_bytes(damage(file.read_bytes()))
    result = run(kept)
    assert sums(result) == sums(first[0]) and compiled(result) == compiled(first[0])
    assert compiled(run(kept)) == [0, 0, 0]


def test_a_file_under_another_name_is_not_that_kernel(first, kept):
    bodies = [file.read_bytes() for file in files(kept)]
    for file, body in zip(files(kept), bodies[1:] + bodies[:1]):
        file.write_bytes(body)
    assert compiled(run(kept)) == compiled(first[0])


def unsafe_folders(folder):
    yield "others may write to", lambda: folder.chmod(0o777)
    if os.geteuid() == 0:
        yield "belongs to another user", lambda: os.chown(folder, 12345, -1)

    def link():
        folder.rename(folder.with_name("elsewhere"))
        folder.symlink_to(folder.with_name("elsewhere"))

    yield "is a link", link


@pytest.mark.parametrize("case", range(3 if os.geteuid() == 0 else 2))
def test_an_unsafe_folder_is_left_alone_with_one_warning(first, kept, case):
    (why, make) = list(unsafe_folders(kept))[case]
    make()
    before = [file.name for file in files(kept)]
    result = run(kept)
    assert sums(result) == sums(first[0]) and compiled(result) == compiled(first[0])
    (told,) = result["told"]
    assert why in told and "OXYTORCH_CACHE_DIR" in told
    assert [file.name for file in files(kept)] == before


def test_a_folder_that_cannot_be_made_is_one_warning(first, tmp_path):
    (tmp_path / "file").write_text("")
    result = run(tmp_path / "file" / "oxytorch")
    assert sums(result) == sums(first[0]) and len(result["told"]) == 1


def test_where_warnings_are_errors_it_is_no_error(first, tmp_path):
    (tmp_path / "file").write_text("")
    raising = "import warnings; torch.manual_seed(0); warnings.simplefilter = lambda *_: None; warnings.filterwarnings('error', message='.*kernels.*')"
    result, errors = finish(start(tmp_path / "file" / "oxytorch", before=raising))
    assert sums(result) == sums(first[0]) and errors.count("are not kept for other processes") == 1


def test_a_folder_that_goes_in_the_middle(first, kept):
    result = run(kept, between=f"__import__('shutil').rmtree({str(kept)!r})")
    assert sums(result) == sums(first[0]) and result["told"] == []
    assert compiled(result)[0] == 0 and compiled(result)[2] > 0 and files(kept)


def test_processes_that_begin_at_once(first, tmp_path):
    processes = [start(tmp_path / "oxytorch") for _ in range(3)]
    for process in processes:
        assert sums(finish(process)[0]) == sums(first[0])
    assert compiled(run(tmp_path / "oxytorch")) == [0, 0, 0]


@pytest.mark.parametrize(
    "how", [dict(OXYTORCH_DISK_CACHE="0"), dict(options={"disk_cache": False}), dict(before="oxytorch.config.disk_cache = False")]
)
def test_nothing_is_read_or_written_unless_wanted(first, kept, how):
    empty = kept.with_name("empty")
    for folder in (kept, empty):
        result = run(folder, **how)
        assert compiled(result) == compiled(first[0]) and max(read(result)) == 0
    assert not empty.exists() and len(files(kept)) == len(files(first[1]))


def test_it_lies_where_caches_lie(first, tmp_path):
    home, caches = tmp_path / "home", tmp_path / "caches"
    home.mkdir()
    run(tmp_path, OXYTORCH_CACHE_DIR="", XDG_CACHE_HOME=str(caches))
    run(tmp_path, OXYTORCH_CACHE_DIR="", XDG_CACHE_HOME="", HOME=str(home))
    for folder in (caches / "oxytorch", home / ".cache" / "oxytorch"):
        assert len(files(folder)) == len(files(first[1]))
    nowhere = run(tmp_path, OXYTORCH_CACHE_DIR="", XDG_CACHE_HOME="", HOME="")
    assert compiled(nowhere) == compiled(first[0]) and nowhere["told"] == []


def test_a_folder_named_from_where_the_process_was_stays(first, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    before, between = f"__import__('os').chdir({str(tmp_path)!r})", "__import__('os').chdir('elsewhere')"
    assert sums(run("caches", before=before, between=between)) == sums(first[0])
    assert len(files(tmp_path / "caches")) == len(files(first[1])) and not files(tmp_path / "elsewhere")


def test_what_was_read_is_told(first):
    process = start(first[1], OXYTORCH_LOGS="cache")
    lines = [line for line in finish(process)[1].splitlines() if line.startswith("oxytorch cache: ")]
    assert len(lines) >= 3 and all(str(first[1]) in line and "0 compiled" in line for line in lines)
    process = start(first[1], OXYTORCH_LOGS="cache", OXYTORCH_DISK_CACHE="0")
    assert all("0 were read from no folder" in line for line in finish(process)[1].splitlines() if line.startswith("oxytorch cache: "))


FORK = """
    child = __import__("os").fork()
    if not child:
        ok = torch.allclose(oxytorch.compile(lambda x: x.sin() * 3)(x), x.sin() * 3)
        __import__("os")._exit(oxytorch.last_compile()["kernels_read"] if ok else 99)
    found.append(dict(sums=[], compiled=0, read=__import__("os").waitstatus_to_exitcode(__import__("os").waitpid(child, 0)[1])))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_of_a_fork_keeps_and_reads(tmp_path):
    """With one thread: torch's own pool does not outlive a fork."""
    how = dict(before="torch.set_num_threads(1)", between=FORK.strip())
    assert [read(run(tmp_path / "oxytorch", **how))[1] for _ in range(2)] == [0, 1]
