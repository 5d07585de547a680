"""The house: which rooms there are, which may know of which, and what a newcomer sees of them."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import asyncload

ROOT = Path(asyncload.__file__).parent

# What each room may import of the others. A room is a module or a package; within a package, modules have an order too.
ARROWS = {
    "types": "",
    "errors": "types",
    "fetch": "types errors",
    "sources": "types",
    "sampling": "types",
    "decode": "types errors",
    "transforms": "types",
    "pool": "types errors decode",
    "slots": "types pool",
    "collate": "types pool slots",
    "options": "types errors",
    "stats": "types errors",
    "pipeline": "types errors options fetch sampling pool slots collate stats",
    "session": "types errors options fetch sources decode pool pipeline stats",
    "bridge": "errors options pipeline session",
    "loader": "types errors options fetch sources sampling decode pool pipeline stats session bridge",
    "torch": "types errors sources pool stats loader",
    "testing": "",
    "cli": "types errors fetch sources decode transforms pool stats session loader testing",
}


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def modules() -> dict[str, Path]:
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = ("asyncload", *path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(name: str, path: Path, names: set[str]) -> set[str]:
    """The modules of asyncload that a file imports, wherever in it; what is only for type checkers is left out."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                if full in names:
                    found.add(full)
                elif node.module in names:
                    found.add(node.module)
    return found - {name}


def test_imports_form_a_dag() -> None:
    files = modules()
    graph = {name: imports_of(name, path, set(files)) for name, path in files.items()}
    # Imports inside of functions count too: none of them mends a cycle.
    list(TopologicalSorter(graph).static_order())


def test_rooms_know_only_the_rooms_below_them() -> None:
    files = modules()
    assert {room_of(name) for name in files} - {"", "__init__"} == set(ARROWS)
    for name, path in files.items():
        room = room_of(name)
        if room:
            known = {room_of(module) for module in imports_of(name, path, set(files))} - {room, ""}
            assert known <= set(ARROWS[room].split()), f"{name} imports {known - set(ARROWS[room].split())}"


def test_public_names_are_sorted_complete_and_real() -> None:
    assert asyncload.__all__ == sorted(asyncload.__all__)
    for name in asyncload.__all__:
        assert getattr(asyncload, name) is not None
    errors = importlib.import_module("asyncload.errors")
    classes = {name for name in errors.__all__ if isinstance(getattr(errors, name), type)}
    assert classes <= set(asyncload.__all__)
    assert set(dir(asyncload)) >= set(asyncload.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Lodaer'"):
        asyncload.Lodaer  # noqa: B018


PROMISED = """AsyncloadError Batch BlockedError BrokenPoolError ClosedError ConnectError DecodeError Failure FetchError
    FetchTimeout HTTPStatusError Http Item Loader PayloadError PipelineError Sample SampleError Session Shard Stats
    TooManyErrors TransformError sources stream transforms""".split()
TRANSFORMS = """CenterCrop ColorJitter Compose Lighting Normalize RandomHorizontalFlip RandomResizedCrop Resize ToFloat
    imagenet_eval imagenet_train wrap""".split()


def test_promised_names_are_there() -> None:
    assert set(PROMISED) <= set(asyncload.__all__)
    assert set(TRANSFORMS) <= set(asyncload.transforms.__all__)


def test_every_module_says_what_it_is() -> None:
    for name, path in modules().items():
        assert ast.get_docstring(ast.parse(path.read_text())), name


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def loaded(code: str, *names: str) -> str:
    """Which of ``names`` are imported after ``code``, in a fresh interpreter."""
    return run(f"import sys\n{code}\nprint([name for name in {names!r} if name in sys.modules])").strip()


def test_importing_asyncload_imports_nothing_heavy() -> None:
    assert loaded("import asyncload", "torch", "cv2", "pyarrow", "aiohttp", "numpy", "PIL") == "[]"


def test_the_faces_import_no_extra() -> None:
    faces = "import asyncload; asyncload.Loader, asyncload.Session"
    assert loaded(faces, "torch", "cv2", "pyarrow", "obstore", "typer", "rich", "matplotlib") == "[]"


def test_a_worker_imports_only_what_it_works_with() -> None:
    assert loaded("import asyncload.pool.worker", "aiohttp", "torch", "asyncio", "cv2") == "[]"
