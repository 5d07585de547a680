"""The synchronous face: every image once, cleanly begun and ended, whatever happens in between."""

from __future__ import annotations

import gc
import io
import logging
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import psutil
import pytest

import asyncload
from asyncload import Batch, Failure, Http, Loader, Sample, transforms
from asyncload.testing import ImageServer

LOCAL = Http(allow_private=True)


@pytest.fixture(scope="module")
def server() -> Iterator[ImageServer]:
    with ImageServer(count=60, size=(64, 96)) as server:
        server.prepare()
        list(asyncload.stream(server.urls(1), workers=0, http=LOCAL))  # loops open what they keep with the first socket
        yield server


def crop(image: Any, rng: np.random.Generator) -> Any:
    """A transform whose pixels depend on the image and on chance."""
    top, left = rng.integers(0, 8, 2)
    return np.ascontiguousarray(image[top : top + 16, left : left + 16])


def by_index(loader: Loader) -> dict[int, Any]:
    pixels: dict[int, Any] = {}
    for batch in loader:
        for index, image in zip(batch.indices.tolist(), batch.images, strict=True):
            assert index not in pixels
            pixels[index] = image.copy()
    return pixels


def same(a: dict[int, Any], b: dict[int, Any]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[index], b[index]) for index in a)


# What is delivered


def test_samples_are_what_the_server_has(server: ImageServer) -> None:
    seen = {}
    for sample in asyncload.stream(server.pairs(20), http=LOCAL, workers=1):
        assert isinstance(sample, Sample)
        seen[sample.index] = sample
    assert sorted(seen) == list(range(20))
    for index, (url, label) in enumerate(server.pairs(20)):
        assert (seen[index].url, seen[index].label) == (url, label)
        image = PIL.ImageOps.exif_transpose(PIL.Image.open(io.BytesIO(server.image(index)))).convert("RGB")
        assert seen[index].image.dtype == np.uint8
        assert np.abs(seen[index].image.astype(int) - np.asarray(image)).mean() < 1


def test_batches_hold_each_sample_once(server: ImageServer) -> None:
    with Loader(server.pairs(), crop, batch_size=16, http=LOCAL, workers=2) as loader:
        assert len(loader) == 4
        for _ in range(2):  # the workers live on
            batches = list(loader)
            assert [len(batch) for batch in batches] == [16, 16, 16, 12]
            indices = np.concatenate([batch.indices for batch in batches])
            assert sorted(indices.tolist()) == list(range(60))
            for batch in batches:
                assert isinstance(batch, Batch)
                assert batch.images.shape == (len(batch), 16, 16, 3)
                assert batch.labels.tolist() == [server.labels[index] for index in batch.indices]
                assert batch.urls == [server.urls()[index] for index in batch.indices]
        stats = loader.stats()
        assert (stats.epoch, stats.samples, stats.failed) == (1, 60, 0)
        assert stats.bytes == sum(len(server.image(number)) for number in range(60))
        assert stats.bottleneck is not None


def test_a_batch_larger_than_the_source_is_all_of_it(server: ImageServer) -> None:
    with Loader(server.urls(), crop, batch_size=1 << 20, http=LOCAL, workers=1) as loader:
        (batch,) = list(loader)
        assert batch.images.shape == (60, 16, 16, 3)
    with Loader(server.urls(), crop, batch_size=1 << 20, drop_last=True, http=LOCAL, workers=1) as loader:
        assert list(loader) == []


def test_drop_last_and_what_is_left(server: ImageServer) -> None:
    with Loader(server.urls(), crop, batch_size=16, drop_last=True, http=LOCAL, workers=1) as loader:
        assert len(loader) == 3
        assert [len(batch) for batch in loader] == [16, 16, 16]
        assert (loader.stats().samples, loader.stats().dropped) == (48, 12)


def test_in_order(server: ImageServer) -> None:
    slow = server.fault_url(3, "delay", 0.3)
    urls = [*server.urls(3), slow, *server.urls()[4:]]
    with Loader(urls, crop, batch_size=7, ordered=True, http=LOCAL, workers=2) as loader:
        indices = [index for batch in loader for index in batch.indices.tolist()]
    assert indices == list(range(60))
    samples = list(asyncload.stream(urls, crop, ordered=True, http=LOCAL, workers=2))
    assert [sample.index for sample in samples] == list(range(60))


def test_out_of_order_a_slow_answer_delays_nobody(server: ImageServer) -> None:
    with server.hold(0) as gate:
        iterator = asyncload.stream(server.urls(), http=LOCAL, workers=1)
        first = [next(iterator).index for _ in range(59)]
        assert 0 not in first
        gate.release()
        assert next(iterator).index == 0
        assert next(iterator, None) is None


@pytest.mark.parametrize(
    "options",
    [
        {"workers": 1},
        {"workers": 3},
        {"workers": 0},
        {"workers": 2, "executor": "thread"},
        {"workers": 2, "http": Http(allow_private=True, connections=3)},
        {"workers": 2, "ordered": True},
    ],
    ids=str,
)
def test_the_same_seed_gives_the_same_pixels(server: ImageServer, options: dict[str, Any]) -> None:
    """Whatever workers, connections, executor and faults: an image's pixels come from (seed, epoch, index) alone."""
    urls = server.urls()
    expected = _expected(server)
    urls[5] = server.fault_url(5, "status", 503, times=1)
    urls[6] = server.fault_url(6, "truncate", times=2)
    urls[7] = server.fault_url(7, "delay", 0.05)
    urls[8] = server.fault_url(8, "reset", times=1)
    server.reset_counts()
    with Loader(urls, crop, batch_size=8, shuffle=True, seed=3, **{"http": LOCAL, **options}) as loader:
        assert same(by_index(loader), expected)


_cache: dict[int, dict[int, Any]] = {}


def _expected(server: ImageServer) -> dict[int, Any]:
    if not _cache:
        with Loader(server.urls(), crop, batch_size=8, seed=3, http=LOCAL, workers=2) as loader:
            _cache[0] = by_index(loader)
    return _cache[0]


def test_another_epoch_and_another_seed_are_other_pixels(server: ImageServer) -> None:
    with Loader(server.urls(30), crop, batch_size=8, seed=3, http=LOCAL, workers=1) as loader:
        first, second = by_index(loader), by_index(loader)
        loader.set_epoch(0)
        assert same(by_index(loader), first)
    assert not same(first, second)
    with Loader(server.urls(30), crop, batch_size=8, seed=4, http=LOCAL, workers=1) as loader:
        assert not same(by_index(loader), first)


def test_shards_share_a_source(server: ImageServer) -> None:
    parts = []
    for rank in range(3):
        shard = asyncload.Shard(rank, 3)
        with Loader(server.urls(), crop, batch_size=8, shuffle=True, shard=shard, http=LOCAL, workers=0) as loader:
            assert len(loader) == 3
            parts.append(set(by_index(loader)))
    assert [len(part) for part in parts] == [20, 20, 20]
    assert set.union(*parts) == set(range(60))


def test_files_and_urls_in_one_list(server: ImageServer, tmp_path: Path) -> None:
    path = tmp_path / "a picture.bin"
    path.write_bytes(server.image(1))
    sources = [server.urls()[1], str(path), path, path.as_uri()]
    images = {sample.index: sample.image for sample in asyncload.stream(sources, http=LOCAL, workers=1)}
    assert all(np.array_equal(images[0], images[index]) for index in range(4))


def test_local_files_can_be_refused(server: ImageServer, tmp_path: Path) -> None:
    path = tmp_path / "1.jpg"
    path.write_bytes(server.image(1))
    http = Http(allow_private=True, allow_files=False)
    with Loader([path, path.as_uri(), server.urls()[1]], workers=0, http=http) as loader:
        assert [sample.index for sample in loader] == [2]
        assert {failure.reason for failure in loader.failures} == {"blocked_scheme"}
        assert "Http(allow_files=True)" in loader.failures[0].message


def test_without_decoding_samples_are_bytes(server: ImageServer) -> None:
    samples = list(asyncload.stream(server.urls(10), decode=False, http=LOCAL))
    assert {sample.index: sample.image for sample in samples} == {n: server.image(n) for n in range(10)}
    with Loader(server.urls(10), decode=False, batch_size=4, http=LOCAL) as loader:
        for batch in loader:
            assert batch.images == [server.image(index) for index in batch.indices]


def test_images_of_different_shapes_in_batches(server: ImageServer) -> None:
    with Loader(server.urls(20), batch_size=6, http=LOCAL, workers=2) as loader:
        whole = {s.index: s.image for s in asyncload.stream(server.urls(20), http=LOCAL, workers=1)}
        for batch in loader:
            assert isinstance(batch.images, list)
            for index, image in zip(batch.indices.tolist(), batch.images, strict=True):
                assert np.array_equal(image, whole[index])


def test_objects_in_batches(server: ImageServer) -> None:
    def describe(image: Any, rng: np.random.Generator) -> Any:
        return {"size": image.shape[:2], "corner": image[:2, :2]}

    with Loader(server.urls(10), describe, batch_size=5, http=LOCAL, workers=1) as loader:
        for batch in loader:
            assert all(value["corner"].shape == (2, 2, 3) for value in batch.images)


def test_floats_fill_slots_too(server: ImageServer) -> None:
    transform = transforms.Compose([transforms.imagenet_eval(16), transforms.Normalize()])
    with Loader(server.urls(20), transform, batch_size=10, http=LOCAL, workers=1) as loader:
        for batch in loader:
            assert batch.images.shape == (10, 16, 16, 3)
            assert batch.images.dtype == np.float32


def test_batches_that_are_kept_do_not_change(server: ImageServer) -> None:
    with Loader(server.urls(), crop, batch_size=4, http=LOCAL, workers=2, prefetch=1) as loader:
        kept = [(batch, batch.images.copy()) for batch in loader]
        for batch in loader:  # the next epoch writes where it may
            del batch
        assert all(np.array_equal(batch.images, copy) for batch, copy in kept)
    assert all(np.array_equal(batch.images, copy) for batch, copy in kept)  # also after the end


# Sources


def test_an_iterable_can_be_iterated_again_and_an_iterator_cannot(server: ImageServer) -> None:
    class Endless:
        def __iter__(self) -> Iterator[str]:
            return iter(server.urls(5))

    with Loader(Endless(), workers=0, http=LOCAL) as loader:
        assert len(list(loader)) == len(list(loader)) == 5
        with pytest.raises(TypeError, match="not known"):
            len(loader)
    with Loader(iter(server.urls(5)), workers=0, http=LOCAL) as loader:
        assert len(list(loader)) == 5
        with pytest.raises(RuntimeError, match="an epoch has used it"):
            iter(loader)


def test_an_async_iterable_is_a_source(server: ImageServer) -> None:
    class Feed:
        async def __aiter__(self) -> AsyncIterator[tuple[str, int]]:
            for pair in server.pairs(12):
                yield pair

    with Loader(Feed(), workers=0, http=LOCAL) as loader:
        for _ in range(2):
            assert sorted(sample.index for sample in loader) == list(range(12))


def test_an_endless_source_is_pulled_no_faster_than_needed(server: ImageServer) -> None:
    pulled = []

    def endless() -> Iterator[str]:
        while True:
            pulled.append(1)
            yield server.urls()[len(pulled) % 60]

    http = Http(allow_private=True, connections=4)
    with Loader(endless(), crop, batch_size=5, prefetch=1, http=http, workers=1) as loader:
        taken = [len(batch) for batch, _ in zip(loader, range(4), strict=False)]
        time.sleep(0.2)  # whatever it would still pull
        # In flight: twice the connections. Decoded: two batches and a few. Taken: four.
        assert len(pulled) < 8 + 10 + 4 + sum(taken) + 5


def test_a_source_that_raises_says_so_in_next(server: ImageServer) -> None:
    def broken() -> Iterator[str]:
        yield from server.urls(5)
        raise OSError("the list ended in the middle")

    with Loader(broken(), workers=0, http=LOCAL) as loader, pytest.raises(OSError, match="in the middle"):
        list(loader)


# What fails


def with_dead_links(server: ImageServer) -> list[str]:
    urls = server.urls()
    urls[2] = server.fault_url(2, "status", 404)
    urls[17] = server.fault_url(17, "html")
    urls[31] = server.fault_url(31, "cut_image")
    return urls


@pytest.mark.parametrize("ordered", [False, True])
def test_every_input_has_one_outcome(server: ImageServer, ordered: bool, caplog: pytest.LogCaptureFixture) -> None:
    with Loader(with_dead_links(server), crop, batch_size=8, ordered=ordered, http=LOCAL, workers=2) as loader:
        with caplog.at_level(logging.WARNING, "asyncload"):
            indices = [index for batch in loader for index in batch.indices.tolist()]
        failures = loader.failures
    assert sorted(indices + [failure.index for failure in failures]) == list(range(60))
    reasons = {failure.index: (failure.stage, failure.reason, failure.status) for failure in failures}
    assert reasons == {
        2: ("fetch", "http_status", 404),
        17: ("decode", "not_image", 200),
        31: ("decode", "truncated", 200),
    }
    assert len(caplog.records) == 1  # one line an epoch
    assert "3 failed" in caplog.text
    if ordered:
        assert indices == sorted(indices)


def test_raise_ends_the_epoch_with_the_error_itself(server: ImageServer) -> None:
    with Loader(with_dead_links(server), on_error="raise", ordered=True, http=LOCAL, workers=1) as loader:
        with pytest.raises(asyncload.HTTPStatusError) as caught:
            list(loader)
        assert caught.value.status == 404
        assert "sample 2" in caught.value.__notes__[0]
        with pytest.raises(asyncload.HTTPStatusError):  # and the loader can be used again
            list(loader)


def test_replace_delivers_the_full_count(server: ImageServer) -> None:
    urls = with_dead_links(server)
    counts = []
    for ordered in (False, True):
        options: dict[str, Any] = {"on_error": "replace", "ordered": ordered, "http": LOCAL, "workers": 2}
        with Loader(urls, crop, batch_size=20, **options) as loader:
            batches = list(loader)
            assert [len(batch) for batch in batches] == [20, 20, 20]
            assert {failure.index for failure in loader.failures} >= {2, 17, 31}
            counts.append(sorted(index for batch in batches for index in batch.indices.tolist()))
    assert counts[0] == counts[1]  # the same ones, chosen by seed
    assert not {2, 17, 31} & set(counts[0])


def test_a_callable_decides(server: ImageServer) -> None:
    seen: list[Failure] = []
    threads = set()

    def note(failure: Failure) -> None:
        threads.add(threading.current_thread())
        seen.append(failure)
        if failure.reason == "http_status":
            raise KeyError(failure.index)

    with Loader(with_dead_links(server), on_error=note, ordered=True, http=LOCAL, workers=1) as loader:
        with pytest.raises(KeyError, match="2"):
            list(loader)
        loader.close()
    urls = with_dead_links(server)
    urls[2] = urls[3]
    with Loader(urls, on_error=note, http=LOCAL, workers=1) as loader:
        assert len(list(loader)) == 58
    assert {failure.reason for failure in seen} == {"http_status", "not_image", "truncated"}
    assert threads == {threading.current_thread()}


def test_too_many_errors_are_raised_by_next(server: ImageServer) -> None:
    urls = server.urls() * 3
    for index in range(0, 180, 5):
        urls[index] = server.fault_url(index % 60, "status", 404)
    with Loader(urls, crop, batch_size=10, http=LOCAL, workers=1) as loader:
        with pytest.raises(asyncload.TooManyErrors, match=r"samples failed \(\d+ http_status\).*max_error_rate=0.1"):
            list(loader)
    with Loader(urls, crop, batch_size=10, http=LOCAL, workers=1, max_error_rate=0.25) as loader:
        assert sum(map(len, loader)) == 144


def test_a_dead_mirror_is_never_an_empty_epoch(server: ImageServer) -> None:
    urls = [server.fault_url(number, "status", 404) for number in range(5)]
    with Loader(urls, http=LOCAL, workers=1) as loader, pytest.raises(asyncload.TooManyErrors, match="5 of 5"):
        list(loader)


def test_an_empty_source_is_an_empty_epoch() -> None:
    with Loader([], batch_size=4) as loader:
        assert list(loader) == []
        assert len(loader) == 0


def test_secrets_of_urls_stay_secret(server: ImageServer, caplog: pytest.LogCaptureFixture) -> None:
    url = server.fault_url(2, "status", 404).replace("http://", "http://me:hunter2@") + "?token=abc123"
    with Loader([*server.urls(20), url], http=LOCAL, workers=0) as loader:
        list(loader)
        told = f"{loader.failures} {loader.stats()} {caplog.text}"
    with Loader([url], on_error="raise", http=LOCAL, workers=0) as loader:
        with pytest.raises(asyncload.HTTPStatusError) as caught:
            list(loader)
        told += repr(caught.value) + str(caught.value.__notes__)
    assert "hunter2" not in told
    assert "abc123" not in told


def test_a_transform_that_raises_names_its_line(server: ImageServer) -> None:
    def picky(image: Any, rng: np.random.Generator) -> Any:
        raise ValueError("never satisfied")

    with Loader(server.urls(3), picky, on_error="raise", http=LOCAL, workers=1) as loader:
        with pytest.raises(asyncload.TransformError, match=r"ValueError: never satisfied \(.*test_loader.py:\d+, in"):
            list(loader)


def test_a_transform_that_workers_cannot_load_breaks_the_pool(server: ImageServer, tmp_path: Path) -> None:
    with Loader(server.urls(), _Unloadable(), http=LOCAL, workers=1) as loader:
        with pytest.raises(asyncload.BrokenPoolError, match="cannot load the transform"):
            list(loader)
        with pytest.raises(asyncload.BrokenPoolError):  # and says so again
            list(loader)


class _Unloadable:
    def __call__(self, image: Any, rng: np.random.Generator) -> Any:
        return image

    def __reduce__(self) -> Any:
        return _load_in, (os.getpid(),)


def _load_in(pid: int) -> Any:
    if os.getpid() != pid:
        raise ImportError("only at home")
    return _Unloadable()


def test_a_loader_whose_pool_broke_can_be_dropped(server: ImageServer) -> None:
    def run() -> None:
        for _ in Loader(server.urls(), _Unloadable(), http=LOCAL, workers=1):
            pass

    with pytest.raises(asyncload.BrokenPoolError):
        run()
    gc.collect()
    assert not any(thread.name == "asyncload-loop" for thread in threading.enumerate())


def test_workers_are_killed_and_nothing_is_lost(server: ImageServer) -> None:
    def slow(image: Any, rng: np.random.Generator) -> Any:
        time.sleep(0.002)
        return crop(image, rng)

    expected = _expected(server)
    with Loader(server.urls(), slow, batch_size=8, seed=3, http=LOCAL, workers=2) as loader:
        pixels = {}
        for batch in loader:
            os.kill(psutil.Process().children()[0].pid, signal.SIGKILL)
            pixels.update(zip(batch.indices.tolist(), (image.copy() for image in batch.images), strict=True))
        assert loader.stats().worker_crashes >= 3
        assert loader.failures == []
    assert same(pixels, expected)


# Beginning and end


def leave_by_break(loader: Loader) -> None:
    for _ in loader:
        break


def leave_by_exception(loader: Loader) -> None:
    with pytest.raises(ZeroDivisionError):
        for _ in loader:
            raise ZeroDivisionError


def leave_by_close(loader: Loader) -> None:
    iterator = iter(loader)
    next(iterator)
    iterator.close()


@pytest.mark.parametrize("leave", [leave_by_break, leave_by_exception, leave_by_close])
@pytest.mark.parametrize("executor", ["process", "thread"])
def test_leaving_early_is_clean_and_the_loader_goes_on(
    server: ImageServer, leave: Callable[[Loader], None], executor: Any
) -> None:
    with Loader(server.urls(), crop, batch_size=4, http=LOCAL, workers=2, executor=executor) as loader:
        list(loader)
        workers = psutil.Process().children()
        for _ in range(20):
            leave(loader)
            gc.collect()  # a traceback may still hold the iterator
        assert sorted(by_index(loader)) == list(range(60))
        assert psutil.Process().children() == workers  # none had to be replaced


@pytest.mark.parametrize("decode", [True, False])
def test_without_close_the_last_reference_ends_it(server: ImageServer, decode: bool) -> None:
    loader = Loader(server.urls(), http=LOCAL, workers=2, decode=decode)
    for _ in loader:
        break
    assert any(thread.name == "asyncload-loop" for thread in threading.enumerate())
    del loader, _
    assert not any(thread.name == "asyncload-loop" for thread in threading.enumerate())
    assert not psutil.Process().children()


def test_a_generator_that_is_dropped_ends_it(server: ImageServer) -> None:
    samples = asyncload.stream(server.urls(), http=LOCAL, workers=1)
    next(samples)
    del samples
    assert not psutil.Process().children()


def test_closing_in_the_middle_ends_the_iterator(server: ImageServer) -> None:
    loader = Loader(server.urls(), crop, batch_size=4, http=LOCAL, workers=1)
    iterator = iter(loader)
    next(iterator)
    loader.close()
    loader.close()
    with pytest.raises(asyncload.ClosedError):
        for _ in iterator:
            pass
    with pytest.raises(asyncload.ClosedError, match="make another"):
        iter(loader)


def test_two_iterators_at_a_time_are_refused(server: ImageServer) -> None:
    with Loader(server.urls(), crop, batch_size=4, http=LOCAL, workers=1) as loader:
        first = iter(loader)
        with pytest.raises(RuntimeError, match="already being iterated"):
            iter(loader)
        assert sum(map(len, first)) == 60
        assert next(first, None) is None
        assert sum(map(len, iter(loader))) == 60


def test_stalled_connections_do_not_delay_the_end(server: ImageServer) -> None:
    urls = [server.fault_url(number, "stall") for number in range(10)] + server.urls(10)
    loader = Loader(urls, crop, batch_size=5, http=LOCAL, workers=1)
    next(iter(loader))
    started = time.monotonic()
    loader.close()
    assert time.monotonic() - started < 2


SCRIPT = """
    import asyncload, os, sys, signal, threading
    urls = {urls!r}
    loader = asyncload.Loader(urls, lambda image, rng: image[:8, :8], batch_size=4, workers=2,
                              http=asyncload.Http(allow_private=True))
    print(os.getpid(), flush=True)
    {body}
"""


def run_script(server: ImageServer, body: str, path: Path, urls: list[str] | None = None) -> subprocess.Popen[str]:
    """A plain script without a guard for ``__main__``, as people write them."""
    file = path / "script.py"
    file.write_text(textwrap.dedent(SCRIPT).format(urls=urls or server.urls(), body=body))
    command = [sys.executable, "-W", "error", str(file)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_a_plain_script_runs_once_and_ends(server: ImageServer, tmp_path: Path) -> None:
    process = run_script(server, "print(sum(len(batch) for batch in loader)); loader.close()", tmp_path)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out.split()[1:], err) == (0, ["60"], "")


def test_a_script_spawned_by_multiprocessing_can_use_its_own_transform(server: ImageServer, tmp_path: Path) -> None:
    """There its ``__main__`` goes by the name of ``__mp_main__``, which a worker does not have."""
    script = tmp_path / "script.py"
    script.write_text(f"""
import asyncload, multiprocessing
def corner(image, rng):
    return image[:3, :3]
def train():
    http = asyncload.Http(allow_private=True)
    print({{sample.image.shape for sample in asyncload.stream({server.urls(9)!r}, corner, http=http, workers=1)}})
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=train)
    process.start()
    process.join()
""")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr) == ("{(3, 3, 3)}\n", "")


def test_code_without_a_file_works_as_in_a_notebook(server: ImageServer) -> None:
    """The transform is a function of a ``__main__`` that no other process could import."""
    code = f"""
import asyncload
scale = 3
def corner(image, rng):
    return image[:scale, :scale]
http = asyncload.Http(allow_private=True)
print({{sample.image.shape for sample in asyncload.stream({server.urls(9)!r}, corner, http=http, workers=1)}})
"""
    command = [sys.executable, "-W", "error", "-"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, input=code, env=environment, capture_output=True, text=True, timeout=30)
    assert (done.stdout, done.stderr) == ("{(3, 3, 3)}\n", "")


def test_a_script_that_just_ends_leaves_nothing(server: ImageServer, tmp_path: Path) -> None:
    body = """next(iter(loader)); import psutil
for child in psutil.Process().children(): print(child.pid)"""
    process = run_script(server, body, tmp_path)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    pids = list(map(int, out.split()[1:]))
    assert len(pids) == 2
    assert not any(map(psutil.pid_exists, pids))


def test_ctrl_c_ends_it_within_two_seconds(server: ImageServer, tmp_path: Path) -> None:
    urls = [server.fault_url(0, "stall"), *server.urls(20)]
    body = "with loader: list(loader)"
    process = run_script(server, body, tmp_path, urls)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    deadline = time.monotonic() + 20
    while len(children := psutil.Process(pid).children()) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    for target in (pid, *(child.pid for child in children)):  # a terminal sends it to the whole group
        os.kill(target, signal.SIGINT)
    started = time.monotonic()
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - started < 2
    assert err.strip().splitlines()[-1] == "KeyboardInterrupt"
    assert err.count("Traceback") == 1  # ours; the workers say nothing
    assert not any(child.is_running() for child in children)


def test_our_threads_receive_no_signals(server: ImageServer) -> None:
    """A signal that one of them received would not wake a main thread that waits for a batch."""
    with server.hold(0) as gate, Loader(server.urls(), executor="thread", workers=2, http=LOCAL) as loader:
        before = {task.name for task in Path("/proc/self/task").iterdir()}
        iterator = iter(loader)
        gate.wait_for_requests(1)
        ours = [task for task in Path("/proc/self/task").iterdir() if task.name not in before]
        assert len(ours) >= 3
        for task in ours:
            (blocked,) = re.findall(r"SigBlk:\s*(\w+)", (task / "status").read_text())
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1):
                assert int(blocked, 16) >> (number - 1) & 1
        iterator.close()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_workers_hear_of_everything_but_ctrl_c(server: ImageServer) -> None:
    with Loader(server.urls(), workers=1, http=LOCAL) as loader:
        next(iter(loader))
        (worker,) = psutil.Process().children()
        status = Path(f"/proc/{worker.pid}/status").read_text()
    assert re.findall(r"SigBlk:\s*(\w+)", status) == ["0" * 16]
    assert int(re.findall(r"SigIgn:\s*(\w+)", status)[0], 16) >> (signal.SIGINT - 1) & 1


def test_workers_end_with_their_parent(server: ImageServer, tmp_path: Path) -> None:
    process = run_script(server, "next(iter(loader)); threading.Event().wait()", tmp_path)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    deadline = time.monotonic() + 20
    while len(children := psutil.Process(pid).children()) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(children, timeout=2)
    assert not alive


def test_a_forked_child_is_told_to_make_its_own(server: ImageServer) -> None:
    with Loader(server.urls(), crop, batch_size=4, http=LOCAL, workers=1) as loader:
        iterator = iter(loader)
        next(iterator)
        pid = os.fork()
        if pid == 0:
            try:
                next(iterator)
            except RuntimeError as error:
                os._exit(0 if "before a fork" in str(error) else 1)
            os._exit(2)
        assert os.waitpid(pid, 0)[1] == 0
        assert sum(map(len, iterator)) == 56  # the parent has lost nothing


# Arguments


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"source": "http://a/b.jpg"}, TypeError, r"got one str; pass \[url\]"),
        ({"source": 3}, TypeError, "expected a sequence or an iterable of URLs"),
        ({"source": [3]}, TypeError, "at index 0, got int"),
        ({"source": [""]}, ValueError, "at index 0, got an empty string"),
        ({"batch_size": 0}, ValueError, "batch_size: expected at least 1, got 0"),
        ({"batch_size": 10**26}, ValueError, "batch_size: expected at most 1048576"),
        ({"batch_size": "8"}, TypeError, "batch_size: expected an integer or None, got '8'"),
        ({"drop_last": True}, ValueError, "without a batch_size"),
        ({"seed": -1}, ValueError, "seed: expected at least 0"),
        ({"on_error": "ignore"}, ValueError, "on_error: expected one of 'skip', 'raise', 'replace' or a callable"),
        ({"max_error_rate": 10}, ValueError, "max_error_rate: expected a share between 0 and 1"),
        ({"shard": (0, 2)}, TypeError, r"shard: expected a Shard\(rank, world_size\)"),
        ({"prefetch": 0}, ValueError, "prefetch: expected at least 1"),
        ({"http": {"retries": 3}}, TypeError, "http: expected an asyncload.Http"),
        ({"decode": "rgb"}, TypeError, "decode: expected True, False or"),
        ({"decode": False, "transform": crop}, ValueError, "there is no image to transform"),
        ({"transform": lambda image: image}, TypeError, "transforms.wrap adapts"),
        ({"source": iter([]), "shuffle": True}, ValueError, "shuffle=True needs a source of known length"),
        ({"source": iter([]), "on_error": "replace"}, ValueError, 'on_error="replace" needs a source of known'),
        ({"executor": "fork"}, ValueError, 'executor: expected "process" or "thread"'),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused_at_once(arguments: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        Loader(**{"source": ["a.jpg"], **arguments})


def test_a_generator_of_samples_takes_no_batches() -> None:
    with pytest.raises(TypeError, match="batch_size"):
        asyncload.stream([], batch_size=3)  # type: ignore[call-arg]


def test_progress_is_shown(server: ImageServer, capsys: pytest.CaptureFixture[str]) -> None:
    with Loader(server.urls(), crop, batch_size=20, http=LOCAL, workers=1, progress=True) as loader:
        list(loader)
    assert "60/60" in capsys.readouterr().err
