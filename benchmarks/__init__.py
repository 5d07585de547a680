"""Benchmarks: ``python -m benchmarks --folder FOLDER``.

``contestants`` holds one file for each way to load images, all with the same three names: ``LABEL``, ``PACKAGES``
(whose versions are reported) and ``epochs(pairs, count)``. ``race`` runs each in a fresh process, in turn, round after
round, so that whatever else the machine does meets them all; ``nginx`` serves the images on loopback.
"""
