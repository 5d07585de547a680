from __future__ import annotations

import logging
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from asyncload.sources import as_source, from_folder, from_urls
from asyncload.types import Item, Source

NASTY = ['http://a/é, "b" c.jpg', "http://a/?sig=a%2Fb+c", "päth/☃.png", "x" * 8000, "http://a/\n"]


def test_urls_survive_as_they_are() -> None:
    source = from_urls(NASTY)
    assert isinstance(source, Source)
    assert [item.url for item in source] == NASTY
    assert source[-1] == Item(4, "http://a/\n", None)
    assert [item.index for item in source[1:3]] == [1, 2]
    with pytest.raises(IndexError, match="index 5 of 5"):
        source[5]


def test_labels_are_ints_or_what_they_are() -> None:
    numbered = from_urls(["a", "b"], np.array([3, 4]))
    assert [item.label for item in numbered] == [3, 4]
    assert all(type(item.label) is int for item in numbered)
    assert [item.label for item in from_urls(["a", "b"], ["cat", None])] == ["cat", None]
    with pytest.raises(ValueError, match="a label for each of 2 URLs, got 1"):
        from_urls(["a", "b"], [1])


def test_a_source_is_small_and_pickles_small() -> None:
    urls = [f"https://images.example.org/train/n{i % 1000:08}/{i:08}.jpg" for i in range(20_000)]
    source = from_urls(urls, range(20_000))
    assert len(pickle.dumps(source)) < sum(map(len, urls)) + 17 * 20_000
    assert list(pickle.loads(pickle.dumps(source))) == list(source)


def test_an_empty_list_is_a_source() -> None:
    assert list(from_urls([])) == []
    assert isinstance(as_source([]), Source)


def test_pairs_paths_and_items_are_entries(tmp_path: Path) -> None:
    source = as_source(["u", ("v", 1), ["w", "two"], tmp_path, Item(7, "x", 3)])
    assert isinstance(source, Source)
    assert list(source) == [
        Item(0, "u"),
        Item(1, "v", 1),
        Item(2, "w", "two"),
        Item(3, str(tmp_path)),
        Item(4, "x", 3),
    ]


@pytest.mark.parametrize("source", ["http://a", b"http://a", Path("a"), 3, None, {"a": 1}, {"a"}])
def test_what_is_no_source_is_refused(source: object) -> None:
    with pytest.raises(TypeError, match="source: expected"):
        as_source(source)  # type: ignore[arg-type]


def test_a_bad_entry_is_named_by_its_index() -> None:
    source = as_source(["a", 3])
    assert isinstance(source, Source)
    with pytest.raises(TypeError, match="at index 1, got int"):
        source[1]
    with pytest.raises(TypeError, match=r"got one str; pass \[url\]"):
        from_urls("http://a")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("dog/2.JPG", "dog/deep/1.png", "cat/b.webp", "cat/a.jpeg", "cat/notes.txt", "emu/.keep"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def test_class_folders_are_numbered_by_name(folder: Path) -> None:
    source = from_folder(folder)
    assert source.classes == ["cat", "dog", "emu"]
    assert [(os.path.relpath(item.url, folder), item.label) for item in source] == [
        ("cat/a.jpeg", 0),
        ("cat/b.webp", 0),
        ("dog/2.JPG", 1),
        ("dog/deep/1.png", 1),
    ]


def test_a_flat_folder_has_no_labels(folder: Path) -> None:
    source = from_folder(folder / "cat")
    assert source.classes == []
    assert [(os.path.basename(item.url), item.label) for item in source] == [("a.jpeg", None), ("b.webp", None)]


def test_a_loop_of_links_and_an_unreadable_folder_are_left_out(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "dog" / "again").symlink_to(folder / "dog")
    (folder / "dog" / "nowhere").symlink_to(folder / "missing")
    with caplog.at_level(logging.WARNING, "asyncload"):
        assert len(from_folder(folder)) == 4
    assert "leads back to a folder already read" in caplog.text


@pytest.mark.parametrize(("name", "error"), [("missing", FileNotFoundError), ("dog/2.JPG", NotADirectoryError)])
def test_what_is_no_folder_is_refused(folder: Path, name: str, error: type[Exception]) -> None:
    with pytest.raises(error, match="from_folder"):
        from_folder(folder / name)


def test_a_folder_without_images_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="no images below"):
        from_folder(folder / "emu")
