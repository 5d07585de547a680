"""The command line: what is printed, where, with which exit status; and that it ends when told to."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from PIL import Image

import asyncload
from asyncload.testing import ImageServer

pytest.importorskip("typer")  # the extra cli

from asyncload.cli.app import app
from asyncload.cli.contact_sheet import Picture, contact_sheet, sheet_size

COMMAND = (sys.executable, "-m", "asyncload.cli")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(asyncload.__file__).parents[1])}


@pytest.fixture(scope="module")
def server() -> Iterator[ImageServer]:
    with ImageServer(count=30, size=(64, 96)) as server:
        server.prepare()
        with urllib.request.urlopen(server.url_of(0)) as answer:  # loops open what they keep with the first socket
            answer.read()
        yield server


def run(*arguments: str | Path, lines: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    text = "\n".join(lines)
    done = subprocess.run([*COMMAND, *arguments], input=text, capture_output=True, text=True, env=ENVIRONMENT)
    assert "Traceback" not in done.stderr
    return done


def run_without(modules: Sequence[str], *arguments: str, first: str = "") -> subprocess.CompletedProcess[str]:
    """Run where ``modules`` seem not to be installed, after the statement ``first``."""
    script = (
        f"import sys\nsys.modules.update(dict.fromkeys({list(modules)!r}))\nsys.argv[1:] = {list(arguments)!r}\n"
        f"{first}\nfrom asyncload.cli import main\nmain()"
    )
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=ENVIRONMENT)


def usage_error(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as exit_:
        app(arguments, prog_name="asyncload")
    assert exit_.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return " ".join(captured.err.split())


# demo


def test_demo_loads_retries_and_fails_on_purpose(tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.png"
    done = run("demo", "--images", "40", "--workers", "1", "--seed", "3", "--output", sheet)
    assert done.returncode == 0
    assert done.stderr == ""
    text = " ".join(done.stdout.split())
    assert "On purpose, 3 of its links are dead" in text
    assert "Delivered 37 of 40 images" in text
    assert re.search(r"\d images/s, [\d.]+ MB/s", text)
    assert re.search(r"Retried \d: .*1 http_status \(a status that passes, such as 503\), 1 truncated \(the body", text)
    assert "Failed 3: 1 connect, 1 http_status, 1 not_image" in text
    assert re.search(r"Bottleneck (network|decode|transform|consumer)\. \w+ \w+", text)
    assert "Failed: the 3 links that are dead on purpose, and no others" in text
    assert re.search(r"\d+ 404 1 fetch/http_status /fault/status=404/photo/\d{5}\.\w+ .* got 404", text)
    assert re.search(r"\d+ - 4 fetch/connect /photo/\d{5}\.\w+ .*Connection refused", text)
    assert re.search(r"\d+ 200 1 decode/not_image /fault/html/photo/\d{5}\.\w+ .*HTML", text)
    assert str(sheet) in done.stdout
    with Image.open(sheet) as picture:
        assert (picture.format, picture.size) == ("PNG", sheet_size(37))
        assert len(np.unique(np.asarray(picture).reshape(-1, 3), axis=0)) > 5000


def test_demo_ends_at_ctrl_c(tmp_path: Path) -> None:
    with start("demo", "--output", tmp_path / "sheet.png") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("asyncload demo: 300 photographs")
        assert interrupt(process) == "Stopped.\n"
    assert not list(tmp_path.iterdir())


def test_contact_sheet_places_pictures_in_reading_order() -> None:
    colours = [(20 * number, 100, 255 - 20 * number) for number in range(11)]
    pictures = [Picture(np.full((32, 32, 3), colour, np.uint8), "caption") for colour in colours]
    sheet = contact_sheet(pictures, "title", "subtitle")
    assert sheet.size == sheet_size(11)
    cells = [(x, y) for y in (62 + 76, 62 + 190 + 76) for x in range(40 + 76, 1360, 166)]
    assert [sheet.getpixel(cell) for cell in cells[:11]] == colours
    assert {sheet.getpixel(cell) for cell in cells[11:]} == {(250, 249, 246)}
    caption = np.asarray(sheet)[62 + 154 : 62 + 176, 40:192]
    assert caption.min() < 150
    assert sheet_size(8)[0] == sheet_size(9)[0]
    assert sheet_size(9)[1] - sheet_size(8)[1] == 190


# bench


def test_bench_measures_a_folder(tmp_path: Path, server: ImageServer) -> None:
    for number in range(6):
        folder = tmp_path / server.classes[number % 2]
        folder.mkdir(exist_ok=True)
        (folder / server.photograph(number).content_type.replace("image/", f"{number}.")).write_bytes(
            server.image(number)
        )
    done = run("bench", tmp_path, "--batch-size", "4", "--size", "32", "--workers", "1", "--epochs", "2", "--shuffle")
    assert (done.returncode, done.stderr) == (0, "")
    assert "images 6, batch_size 4, transform train, size 32, workers 1, executor process" in done.stdout
    first, second = done.stdout.split("Epoch 1")
    for part in (first, second):
        text = " ".join(part.split())
        assert "Delivered 6 of 6 images" in text
        assert re.search(r"Speed [\d,]+ images/s, [\d.]+ MB/s First batch after \d\.\d\d s Retried none", text)
        assert "Failed none Bottleneck" in text


def test_bench_reports_retries_and_failures_of_a_list_as_json(tmp_path: Path, server: ImageServer) -> None:
    gone, page = server.fault_url(1, "status", 404), server.fault_url(2, "html")
    cut = server.fault_url(3, "truncate", times=1)
    path = tmp_path / "list.txt"
    path.write_text(f"\ufeff{gone}\n\n  # a comment\n{page}\r\n  {cut}\n" + "\n".join(server.urls(10)[4:]))
    done = run(
        "bench", path, "--allow-private", "--json", "--executor", "thread", "--transform", "none", "--limit", "8"
    )
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert (result["images"], result["executor"], result["transform"]) == (8, "thread", "none")
    (epoch,) = result["epochs"]
    assert (epoch["samples"], epoch["failed"], epoch["error"]) == (6, 2, None)
    assert epoch["reasons"] == {"http_status": 1, "not_image": 1}
    assert epoch["retried"] == {"truncated": 1}
    assert epoch["images_per_second"] == pytest.approx(6 / epoch["seconds"])
    assert epoch["first_batch_seconds"] > 0
    assert epoch["bottleneck"] in ("network", "decode")
    failures = {failure["index"]: failure for failure in epoch["failures"]}
    assert (failures[0]["status"], failures[0]["url"]) == (404, gone)
    assert (failures[1]["stage"], failures[1]["reason"]) == ("decode", "not_image")


def test_bench_reads_standard_input_and_need_not_decode(server: ImageServer) -> None:
    done = run("bench", "-", "--allow-private", "--no-decode", "--json", lines=server.urls(5))
    (epoch,) = json.loads(done.stdout)["epochs"]
    assert epoch["samples"] == 5
    assert epoch["bytes"] == sum(len(server.image(number)) for number in range(5))
    assert epoch["decode_seconds"] == epoch["transform_seconds"] == 0


def test_bench_says_that_nothing_answers() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        urls = [f"http://127.0.0.1:{closed.getsockname()[1]}/{number}.jpg" for number in range(3)]
        done = run("bench", "-", "--allow-private", "--workers", "1", lines=urls)
    assert done.returncode == 1
    assert "Delivered   0 of 3 images" in done.stdout
    assert done.stderr.strip().count("\n") == 0
    assert done.stderr.startswith("\nasyncload bench: 3 of 3 samples failed (3 connect)")
    assert "not connected (Connection refused)" in done.stderr


def test_bench_says_how_to_allow_private_addresses(server: ImageServer) -> None:
    server.reset_counts()
    done = run("bench", "-", "--max-error-rate", "1", lines=server.urls(2))
    assert done.returncode == 1
    assert "Pass --allow-private" in done.stderr
    assert "not one image could be loaded" in done.stderr
    assert server.count() == 0


def test_what_strangers_write_does_not_command_the_terminal() -> None:
    done = run("bench", "-", "--workers", "0", lines=["/no/\x1b[31mred [bold]\N{RIGHT-TO-LEFT OVERRIDE}.jpg"])
    assert done.returncode == 1
    assert "/no/\N{REPLACEMENT CHARACTER}[31mred [bold]\N{REPLACEMENT CHARACTER}.jpg" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_bench_refuses_what_is_no_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.txt").write_text("\n# nothing\n")
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8\xff\xe0")
    expected = "expected a folder of images, a text file with one URL or path per line, or -"
    assert f"nowhere: No such file or directory; {expected}" in usage_error(capsys, "bench", "nowhere")
    assert f"empty.txt names no image; {expected}" in usage_error(capsys, "bench", "empty.txt")
    assert f"photo.jpg is not text in UTF-8; {expected}" in usage_error(capsys, "bench", "photo.jpg")
    assert f"is a URL; {expected}" in usage_error(capsys, "bench", "https://example.org/photo.jpg")
    assert "no images below empty" in usage_error(capsys, "bench", "empty")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    assert f"- names no image; {expected}" in usage_error(capsys, "bench", "-")


def test_wrong_options_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--batch-size" in usage_error(capsys, "bench", "-", "--batch-size", "0")
    assert "--workers" in usage_error(capsys, "bench", "-", "--workers", "many")
    assert "--max-error-rate" in usage_error(capsys, "bench", "-", "--max-error-rate", "2")
    assert "--images" in usage_error(capsys, "demo", "--images", "3")
    nowhere = tmp_path / "nowhere"
    assert f"there is no folder {nowhere}" in usage_error(capsys, "demo", "--output", str(nowhere / "sheet.png"))


# Ctrl-C


def start(*arguments: str | Path, errors: int = subprocess.PIPE) -> subprocess.Popen[str]:
    """As a shell does: in a process group of its own, all of which Ctrl-C reaches."""
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        start_new_session=True,
        env={**ENVIRONMENT, "TERM": "xterm", "COLUMNS": "100"},
    )


def interrupt(process: subprocess.Popen[str]) -> str:
    """Press Ctrl-C. Returns what was written to the standard error output, unless that is a terminal."""
    children = psutil.Process(process.pid).children(recursive=True)
    started = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(10) == 130
    assert time.monotonic() - started < 2
    assert not psutil.wait_procs(children, timeout=2)[1]
    return "" if process.stderr is None else process.stderr.read()


def test_bench_ends_at_ctrl_c_while_servers_are_silent(tmp_path: Path, server: ImageServer) -> None:
    path = tmp_path / "list.txt"
    path.write_text("\n".join(server.urls(20)))
    with server.hold() as gate, start("bench", path, "--allow-private", "--workers", "2") as process:
        gate.wait_for_requests(20)
        assert len(psutil.Process(process.pid).children()) == 2
        assert interrupt(process) == "\nStopped; these are the figures so far.\n"
        gate.wait_for_disconnect(20)


def test_bench_shows_progress_and_at_ctrl_c_the_figures_so_far(tmp_path: Path, server: ImageServer) -> None:
    path = tmp_path / "list.txt"
    path.write_text("\n".join(server.urls(5)))
    ours, theirs = pty.openpty()
    with server.hold(3), start("bench", path, "--allow-private", "--json", "--epochs", "9", errors=theirs) as process:
        os.close(theirs)
        shown = b""
        while b"4 of 5" not in shown:  # drawn while the fifth is awaited
            shown += os.read(ours, 4096)
        interrupt(process)
        assert process.stdout is not None
        (epoch,) = json.loads(process.stdout.read())["epochs"]
    os.close(ours)
    assert b"epoch 0" in shown
    assert (epoch["samples"], epoch["failed"], epoch["error"]) == (4, 0, "interrupted")


# doctor, and what else there is


def test_doctor_knows_what_is_installed() -> None:
    done = run("doctor", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    findings = json.loads(done.stdout)
    assert findings["versions"]["asyncload"] == asyncload.__version__
    assert findings["versions"]["numpy"] == np.__version__
    assert findings["cores"] >= 1
    assert findings["open_files"]["needed"] > 256
    assert findings["extras"]["cli"]["missing"] == []
    assert (findings["resampler"] == "OpenCV") == (findings["versions"]["cv2"] is not None)


def test_doctor_says_what_is_missing_and_what_to_change() -> None:
    limit = "from resource import *\nsetrlimit(RLIMIT_NOFILE, (200, getrlimit(RLIMIT_NOFILE)[1]))"
    done = run_without(["cv2", "turbojpeg", "simplejpeg", "torch"], "doctor", first=limit)
    assert (done.returncode, done.stderr) == (0, "")
    text = " ".join(done.stdout.split())
    assert f"asyncload {asyncload.__version__} Python {sys.version.split()[0]}" in text
    assert "resampler Pillow" in text
    assert "fast missing OpenCV" in text
    assert "torch missing asyncload.torch" in text
    assert "cli installed" in text
    assert "pip install 'asyncload[fast]'" in text
    assert "open files 200 (hard limit" in text
    assert re.search(r"Only 200 files may be open, .* up to \d+: run ulimit -n \d{3,4} in the shell before", text)


@pytest.mark.parametrize("hidden", [["typer"], ["rich"]])
def test_without_its_extra_the_command_says_how_to_get_it(hidden: list[str]) -> None:
    done = run_without(hidden, "doctor")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"asyncload: the command line needs {hidden[0]}; pip install 'asyncload[cli]'\n"


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    outputs: list[Any] = []
    for arguments in (["--version"], ["--help"]):
        with pytest.raises(SystemExit) as exit_:
            app(arguments, prog_name="asyncload")
        assert exit_.value.code == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == f"asyncload {asyncload.__version__}\n"
    assert all(command in outputs[1] for command in ("demo", "bench", "doctor"))
