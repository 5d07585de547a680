"""ImageDataset: tensors without a copy, each sample once, alone or in whatever a DataLoader makes of it."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import threading
import traceback
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from asyncload import ClosedError, Http, Shard, TooManyErrors
from asyncload.testing import ImageServer

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader  # noqa: E402 - it is known to be there only now

from asyncload.torch import ImageDataset  # noqa: E402

# The quickest way to start DataLoader workers; macOS does not take it well. From Python 3.12 on it warns of threads.
START = "fork" if sys.platform == "linux" else "spawn"
pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),  # two workers on one core
]

COUNT, BATCH_SIZE, HEIGHT, WIDTH = 40, 8, 16, 20


@pytest.fixture(scope="module", autouse=True)
def what_python_starts_once() -> None:
    resource_tracker.ensure_running()  # a process that multiprocessing starts with the first spawn, and keeps


@pytest.fixture(scope="module")
def pixels() -> Any:
    """All images: noise, so that no two rows of any two are alike."""
    return np.random.default_rng(0).integers(0, 256, (COUNT, HEIGHT, WIDTH, 3), np.uint8)


@pytest.fixture(scope="module")
def files(pixels: Any, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, int]]:
    """Each image as a lossless file, with its number as its label."""
    folder = tmp_path_factory.mktemp("files")
    pairs = [(folder / f"{number}.png", number) for number in range(COUNT)]
    for path, number in pairs:
        PIL.Image.fromarray(pixels[number]).save(path)
    return pairs


def labels_of(batches: Any) -> list[int]:
    return [label for _, labels in batches for label in labels.tolist()]


def whereabouts(image: Any, rng: np.random.Generator) -> Any:
    """A transform that tells which process it is in, and whether in a decode thread of ours."""
    return np.array([os.getpid(), threading.current_thread().name.startswith("asyncload-decode")])


# Tensors


def test_batches_are_channels_last_tensors(files: Any, pixels: Any) -> None:
    batches = list(ImageDataset(files, batch_size=BATCH_SIZE, ordered=True))
    assert len(batches) == 5
    for start, (images, labels) in zip(range(0, COUNT, BATCH_SIZE), batches, strict=True):
        assert (images.shape, images.dtype) == ((BATCH_SIZE, 3, HEIGHT, WIDTH), torch.uint8)
        assert images.is_contiguous(memory_format=torch.channels_last)
        assert np.array_equal(images.permute(0, 2, 3, 1), pixels[start : start + BATCH_SIZE])
        assert (labels.shape, labels.dtype) == ((BATCH_SIZE,), torch.int64)
        assert labels.tolist() == list(range(start, start + BATCH_SIZE))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/maps")
def test_a_batch_is_the_memory_that_the_workers_wrote(files: Any) -> None:
    for images, _ in ImageDataset(files, batch_size=BATCH_SIZE):
        maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
        (name,) = (
            " ".join(rest)
            for span, _, _, _, _, *rest in maps
            if int(span.partition("-")[0], 16) <= images.data_ptr() < int(span.partition("-")[2], 16)
        )
        assert name.startswith("/memfd:asyncload")


def test_a_tensor_keeps_what_it_shows(files: Any, pixels: Any) -> None:
    """Its memory is used again only when it, and every view of it, is gone."""
    dataset = ImageDataset(files, batch_size=2, ordered=True, prefetch=1)
    kept = [images[1, :, 3:5] for _ in range(2) for images, _ in dataset]
    shown = torch.stack(kept).permute(0, 2, 3, 1)
    assert np.array_equal(shown, np.concatenate([pixels[1::2, 3:5]] * 2))


def test_images_of_several_sizes_come_as_a_list(files: Any, tmp_path: Path) -> None:
    PIL.Image.new("RGB", (7, 5)).save(tmp_path / "small.png")
    ((images, labels),) = ImageDataset([files[0], (tmp_path / "small.png", 1)], batch_size=2, ordered=True)
    assert [image.shape for image in images] == [(3, HEIGHT, WIDTH), (3, 5, 7)]
    assert labels.tolist() == [0, 1]


def test_without_a_batch_size_samples_come_one_by_one(files: Any, pixels: Any) -> None:
    for (image, label), (_, number) in zip(ImageDataset(files, ordered=True), files, strict=True):
        assert label == number
        assert np.array_equal(image.permute(1, 2, 0), pixels[number])


def test_labels_that_are_no_integers_stay_as_they_are(files: Any) -> None:
    ((_, labels),) = ImageDataset([(path, {"name": path.stem}) for path, _ in files[:2]], batch_size=2, ordered=True)
    assert labels == [{"name": "0"}, {"name": "1"}]


RESULTS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "floats, channels last": (lambda image, rng: image / np.float32(255), (3, HEIGHT, WIDTH)),
    "channels first": (lambda image, rng: image.transpose(2, 0, 1), (3, HEIGHT, WIDTH)),
    "several crops": (lambda image, rng: np.stack([image[:4], image[4:8]]), (2, 3, 4, WIDTH)),
    "grey": (lambda image, rng: image[..., 0], (HEIGHT, WIDTH)),
    "points in space": (lambda image, rng: image[0, :5], (5, 3)),
    "a colour": (lambda image, rng: image.mean(axis=(0, 1)), (3,)),
    "upside down, from memory of its own": (lambda image, rng: (image // 2)[::-1], (3, HEIGHT, WIDTH)),
    "read-only": (lambda image, rng: np.broadcast_to(image[:1], image.shape), (3, HEIGHT, WIDTH)),
}


@pytest.mark.parametrize("executor", ["process", "thread"])
@pytest.mark.parametrize("name", RESULTS)
def test_a_transform_may_return_other_arrays(files: Any, pixels: Any, name: str, executor: Any) -> None:
    transform, shape = RESULTS[name]
    options: Any = {"ordered": True, "executor": executor, "workers": 1}
    expected = torch.from_numpy(np.stack([transform(image, None) for image in pixels[:2]]))
    if expected.ndim >= 4 and expected.shape[-1] == 3:
        expected = expected.movedim(-1, -3)
    assert expected.shape[1:] == shape

    ((batch, _),) = ImageDataset(files[:2], transform, batch_size=2, **options)
    assert batch.dtype == expected.dtype
    assert torch.equal(batch, expected)
    assert torch.equal(torch.stack([image for image, _ in ImageDataset(files[:2], transform, **options)]), expected)


# Epochs


def test_epochs_count_up_and_each_has_its_own_order(files: Any) -> None:
    dataset = ImageDataset(files, batch_size=BATCH_SIZE, ordered=True, shuffle=True, seed=3)
    first, second = labels_of(dataset), labels_of(dataset)
    assert sorted(first) == sorted(second) == list(range(COUNT))
    assert first != second
    dataset.set_epoch(0)
    assert [labels_of(dataset), labels_of(dataset)] == [first, second]


def test_leaving_an_epoch_early_leaves_nothing_behind(files: Any) -> None:
    dataset = ImageDataset(files, batch_size=BATCH_SIZE, ordered=True)
    for _ in dataset:
        break
    assert labels_of(dataset) == list(range(COUNT))
    next(iter(ImageDataset(files)))
    ImageDataset(files)


def test_the_next_epoch_ends_one_that_is_under_way(files: Any) -> None:
    dataset = ImageDataset(files, batch_size=BATCH_SIZE, ordered=True)
    old = iter(dataset)
    next(old)
    new = iter(dataset)
    with pytest.raises(RuntimeError, match="ended by the next one"):
        next(old)
    assert labels_of(new) == list(range(COUNT))
    assert dataset.stats().epoch == 1


def test_length_is_that_of_this_rank(files: Any) -> None:
    assert len(ImageDataset(files)) == COUNT
    assert len(ImageDataset(files, batch_size=16)) == 3
    assert len(ImageDataset(files, batch_size=16, drop_last=True)) == 2
    assert len(ImageDataset(files, batch_size=16, shard=Shard(0, 4))) == 1
    with pytest.raises(TypeError, match="not known"):
        len(ImageDataset(iter(files)))


def test_failures_and_figures_can_be_asked_for() -> None:
    with ImageServer(count=4, size=(64, 96)) as server:
        urls = [*server.urls(), server.url_of("/nothing.jpg")]
        dataset = ImageDataset(urls, batch_size=5, http=Http(allow_private=True))
        assert dataset.stats().samples == 0
        ((images, _),) = dataset
        assert len(images) == dataset.stats().samples == 4
        assert [(failure.index, failure.reason) for failure in dataset.failures] == [(4, "http_status")]
        dataset.close()


def test_close_ends_it_for_good(files: Any) -> None:
    dataset = ImageDataset(files, batch_size=BATCH_SIZE, workers=1, prefetch=1)  # too little for all to be ready
    batches = iter(dataset)
    images, _ = next(batches)
    before = images.clone()
    dataset.close()
    dataset.close()
    assert torch.equal(images, before)
    with pytest.raises(ClosedError):
        list(batches)
    with pytest.raises(ClosedError):
        iter(dataset)


def test_bad_arguments_are_refused_at_once(files: Any) -> None:
    with pytest.raises(ValueError, match="batch_size"):
        ImageDataset(files, batch_size=0)
    with pytest.raises(TypeError, match="pass \\[url\\]"):
        ImageDataset("https://example.org/a.jpg")


# Ranks


def test_the_rank_is_that_of_the_environment(files: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in (0, 1):
        monkeypatch.setenv("RANK", str(rank))
        labels = labels_of(ImageDataset(files, batch_size=BATCH_SIZE, ordered=True))
        assert labels == list(range(rank, COUNT, 2))
        assert len(ImageDataset(files, shard=Shard(0, 1))) == COUNT


def test_the_rank_is_that_of_torch_distributed(files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")  # which says otherwise
    monkeypatch.setenv("RANK", "1")
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        assert len(ImageDataset(files)) == COUNT
    finally:
        torch.distributed.destroy_process_group()


# Pickles


def test_a_pickle_begins_where_the_dataset_is(files: Any) -> None:
    dataset = ImageDataset(files, lambda image, rng: image[:8], batch_size=BATCH_SIZE, ordered=True, shuffle=True)
    next(under_way := iter(dataset))
    other = pickle.loads(pickle.dumps(dataset))
    del under_way
    assert len(dataset) == len(other) == 5
    for (images, labels), (same_images, same_labels) in zip(dataset, other, strict=True):
        assert images.shape[2:] == (8, WIDTH)
        assert torch.equal(images, same_images)
        assert torch.equal(labels, same_labels)
    assert dataset.stats().epoch == other.stats().epoch == 1


# In a DataLoader


def workers_of(dataset: ImageDataset, context: str = START, **options: Any) -> Any:
    """A DataLoader with two workers."""
    return DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context=context, **options)


def test_in_a_dataloader_without_workers(files: Any, pixels: Any) -> None:
    loader = DataLoader(ImageDataset(files, batch_size=BATCH_SIZE, ordered=True), batch_size=None)
    assert len(loader) == 5
    for _ in range(2):
        batches = list(loader)
        assert labels_of(batches) == list(range(COUNT))
        assert np.array_equal(torch.cat([images for images, _ in batches]).permute(0, 2, 3, 1), pixels)


@pytest.mark.parametrize("context", sorted({START, "spawn"}))
def test_dataloader_workers_share_the_source(files: Any, pixels: Any, context: str) -> None:
    # A lambda, because it reaches spawned workers, too.
    dataset = ImageDataset(files, lambda image, rng: image[:8].copy(), batch_size=3, shuffle=True)
    seen = {}
    for images, labels in workers_of(dataset, context):
        assert images.is_contiguous(memory_format=torch.channels_last)
        for image, label in zip(images, labels.tolist(), strict=True):
            assert label not in seen
            seen[label] = image.permute(1, 2, 0)
    assert np.array_equal(torch.stack([seen[number] for number in range(COUNT)]), pixels[:, :8])


def test_dataloader_workers_decode_in_threads_of_their_own(files: Any) -> None:
    found, workers = set(), set()
    for places, _ in workers_of(ImageDataset(files, whereabouts, batch_size=4)):
        found |= {tuple(place) for place in places.tolist()}
        workers |= {process.pid for process in multiprocessing.active_children()}
    assert found == {(pid, 1) for pid in workers}
    assert len(workers) == 2


def test_workers_and_ranks_together_deliver_each_sample_once(files: Any) -> None:
    labels = []
    for rank in range(3):
        dataset = ImageDataset(files, batch_size=4, shuffle=True, shard=Shard(rank, 3))
        labels += labels_of(workers_of(dataset))
    assert sorted(labels) == list(range(COUNT))


def test_workers_that_persist_count_epochs_by_themselves(files: Any) -> None:
    dataset = ImageDataset(files, batch_size=4, shuffle=True, ordered=True)
    loader = workers_of(dataset, persistent_workers=True)
    next(iter(loader))  # an epoch that is not finished does not stand in the way of the next
    epochs = [labels_of(loader), labels_of(loader)]
    assert [sorted(labels) for labels in epochs] == [list(range(COUNT))] * 2
    dataset.set_epoch(1)
    assert labels_of(workers_of(dataset)) == epochs[0] != epochs[1]


def test_workers_that_are_new_are_told_the_epoch(files: Any) -> None:
    dataset = ImageDataset(files, batch_size=4, shuffle=True, ordered=True)
    loader = workers_of(dataset)
    epochs = []
    for epoch in (0, 1, 0):
        dataset.set_epoch(epoch)
        epochs.append(labels_of(loader))
    assert epochs[0] == epochs[2] != epochs[1]


def test_dataloader_workers_leave_an_epoch_that_is_under_way_alone(files: Any) -> None:
    dataset = ImageDataset(files, batch_size=4, ordered=True, prefetch=1)
    under_way = iter(dataset)
    _, first = next(under_way)
    assert sorted(labels_of(workers_of(dataset))) == list(range(COUNT))
    assert first.tolist() + labels_of(under_way) == list(range(COUNT))


def test_what_ends_an_epoch_in_a_worker_reaches_the_trainer(tmp_path: Path) -> None:
    missing = [tmp_path / f"{number}.jpg" for number in range(4)]
    with pytest.raises(TooManyErrors, match="2 of 2 samples failed \\(2 file_not_found\\)") as caught:
        list(workers_of(ImageDataset(missing)))
    # A frame of torch's holds the exception that holds the frame. Left to the garbage collector, which comes upon the
    # queues first, the workers would hear of their end only after seconds.
    traceback.clear_frames(caught.tb)
