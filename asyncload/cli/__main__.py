"""``python -m asyncload.cli``: the same as ``asyncload``."""

from __future__ import annotations

from asyncload.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
