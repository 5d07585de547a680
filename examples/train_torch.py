"""Train a small network in torch on photographs that come from URLs while it trains::

    python examples/train_torch.py

It learns to tell ten kinds of landscape apart. Where training data is somewhere else, only ``pairs`` is another list.
"""

from __future__ import annotations

import argparse
import os

import torch
from torch import Tensor, nn

import asyncload
from asyncload import transforms
from asyncload.testing import ImageServer
from asyncload.torch import ImageDataset

SIZE = 48  # pixels


class Normalize(nn.Module):
    """From bytes to floats around 0, by the mean and standard deviation of ImageNet.

    A part of the model, and not of the transform, so that it runs on the device and bytes travel there: a quarter of
    what floats would take in the workers, in the batches and on the bus.
    """

    mean: Tensor
    std: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([123.675, 116.28, 103.53]).view(3, 1, 1))
        self.register_buffer("std", torch.tensor([58.395, 57.12, 57.375]).view(3, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std


def block(before: int, after: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(before, after, kernel_size=3, stride=2, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()
    )


def small_net(classes: int) -> nn.Module:
    layers = [Normalize(), block(3, 16), block(16, 32), block(32, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(64, classes))


def train_epoch(model: nn.Module, dataset: ImageDataset, optimizer: torch.optim.Optimizer, device: str) -> float:
    criterion = nn.CrossEntropyLoss()
    model.train()
    losses = []
    for images, labels in dataset:
        loss = criterion(model(images.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())  # .item() would wait for the device in every step
    return torch.stack(losses).mean().item()


@torch.inference_mode()
def accuracy(model: nn.Module, dataset: ImageDataset, device: str) -> float:
    model.eval()
    right = [model(images.to(device)).argmax(1) == labels.to(device) for images, labels in dataset]
    return torch.cat(right).float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small network on photographs of a local server.")
    parser.add_argument("--images", type=int, default=1000, help="how many, a fifth of them to test with")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    half = max(1, (os.cpu_count() or 1) // 2)  # the network and the decoders share the cores
    torch.set_num_threads(half)

    with ImageServer(args.images, args.seed, size=(64, 160)) as server:
        server.prepare()  # or the figures would be those of a painter
        pairs, test_size = server.pairs(), args.images // 5
        http = asyncload.Http(allow_hosts=("127.0.0.1",))
        train = ImageDataset(
            pairs[test_size:],
            transforms.imagenet_train(SIZE),
            batch_size=50,
            shuffle=True,
            seed=args.seed,
            ordered=True,  # or arrival decides who shares a batch, and no two runs are alike
            workers=half,
            http=http,
        )
        test = ImageDataset(pairs[:test_size], transforms.imagenet_eval(SIZE), batch_size=200, workers=half, http=http)

        model = small_net(len(server.classes)).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        for epoch in range(args.epochs):
            loss = train_epoch(model, train, optimizer, device)
            stats = train.stats()
            print(
                f"epoch {epoch}: loss {loss:.3f}, accuracy {accuracy(model, test, device):.1%}, "
                f"{stats.images_per_second:.0f} images/s, {stats.waited_seconds / stats.seconds:.0%} waiting for data"
            )


if __name__ == "__main__":
    main()
