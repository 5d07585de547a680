"""Decode workers: encoded bytes in, transformed images out, each written once into memory that both sides share.

Read ``jobs`` first (what is asked of a worker and what comes back), then ``work`` (how one image is done), then one of
the three executors: ``inline``, ``threads``, or ``processes`` with its other half, ``worker``. ``memory`` holds the
shared memory, ``records`` and ``values`` are the wire format between the two halves.

Nothing is imported here: a worker process starts in the time that its own imports take.
"""
