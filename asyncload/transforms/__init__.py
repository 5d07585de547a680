"""What is done to an image before it joins a batch: ``(image, rng) -> image``, named as in torchvision.

``image`` is ``uint8`` ``(H, W, 3)`` RGB, ``rng`` a ``numpy.random.Generator`` from which all that is random is drawn:
the same generator and image give the same pixels, whoever calls, in whichever order. Any such callable will do in a
:class:`Compose` or a ``Loader``, a lambda too; ``wrap`` makes one of a function that takes the image alone.

    transforms.imagenet_train(224)
    transforms.Compose([transforms.RandomResizedCrop(224), transforms.ColorJitter(0.4, 0.4, 0.4), my_own])

A transform is not changed by being called, and can be pickled.
"""

from asyncload.transforms.colour import ColorJitter, Lighting, Normalize, ToFloat
from asyncload.transforms.compose import Compose, imagenet_eval, imagenet_train, wrap
from asyncload.transforms.geometry import CenterCrop, RandomHorizontalFlip, RandomResizedCrop, Resize

__all__ = [
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "Lighting",
    "Normalize",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "Resize",
    "ToFloat",
    "imagenet_eval",
    "imagenet_train",
    "wrap",
]
