"""The benchmark runs end to end on a small folder: its figures are for people, that it works is for here."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from asyncload.testing import ImageServer

ROOT = Path(__file__).parent.parent
NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
ECHO = Path("/usr/lib/nginx/modules/ngx_http_echo_module.so")


@pytest.mark.skipif(NGINX is None or not ECHO.exists(), reason="needs nginx and its echo module")
def test_from_nginx_to_batches_with_and_without_delay(tmp_path: Path) -> None:
    photographs = ImageServer(count=30, size=(64, 96))
    for number in range(30):
        folder = tmp_path / "photographs" / f"class {number % 3}"  # a space, as in many a folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(photographs.image(number))
    figures = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks", "--folder", str(tmp_path / "photographs"), "--json", str(figures)]
    options = ["--rounds", "1", "--epochs", "2", "--delay-ms", "0", "20", "--only", "asyncload_loader"]
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    assert "30 photographs, 20 ms before every answer" in done.stdout
    result = json.loads(figures.read_text())
    for situation in ("0 ms", "20 ms"):
        assert result[situation]["asyncload_loader"][0]["images"] == 30
