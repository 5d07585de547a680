"""Every code block of the README runs, on a local server that stands in for the one in the examples."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from asyncload.testing import ImageServer

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
PYTHON = [code for language, code in BLOCKS if language == "python"]
SHELL = [line for language, code in BLOCKS if language == "sh" for line in code.splitlines()]


def test_the_first_screen_has_both_commands_and_an_example() -> None:
    screen = "\n".join(README.read_text().splitlines()[:30])
    assert "asyncload demo" in screen
    assert "bin/pytest" in screen
    assert "for sample in asyncload.stream(urls)" in screen


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_every_example_runs(number: int, tmp_path: Path) -> None:
    code = PYTHON[number]
    if "asyncload.torch" in code and importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    with ImageServer(count=4, size=(256, 300)) as server:
        (tmp_path / "photos").mkdir()
        (tmp_path / "photos" / "3.webp").write_bytes(server.image(3))
        for name, url in (
            ("1.jpg", server.urls()[0]),
            ("2.jpg", server.urls()[1]),
            ("2.png", server.urls()[1]),
            ("gone.jpg", server.url_of("/gone.jpg")),
        ):
            code = code.replace(f"https://images.example.org/{name}", url)
        # The only other thing that is changed: our server is a private address.
        allow = "import asyncload.fetch.settings as s; s.Http.__init__.__kwdefaults__['allow_private'] = True\n"
        script = tmp_path / "example.py"
        script.write_text(allow + code)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-W", "error", str(script)]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    # Nothing but the line that an epoch with failures logs.
    assert all(line.startswith("epoch 0: ") for line in done.stderr.splitlines()), done.stderr
    assert done.stdout


def test_every_command_exists() -> None:
    names = [line.split()[1] for line in SHELL if line.startswith("asyncload ")]
    assert names == ["demo", "bench", "doctor"]
    pytest.importorskip("typer")
    for name in names:
        subprocess.run([sys.executable, "-m", "asyncload.cli", name, "--help"], check=True, stdout=subprocess.DEVNULL)
