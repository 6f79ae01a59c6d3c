"""The online features: one row of floats per user and per item, as the batcher reads them from its feature store.

user (24): age, male, occupation, u_mean, u_cnt, 19 genre means
item (22): 19 genre flags, year, i_mean, i_cnt

The batcher serves an unknown entity as a row of zeros, so zero must be a mild value: `year` counts from 1990.
"""

from dataclasses import dataclass

import numpy as np

from movielens import Dataset, Ratings

BASE_YEAR = 1990
MEDIAN_YEAR = 1995
"""For the few items without a release year."""


@dataclass(frozen=True)
class View:
    """Rows of FP32 by entity id; `ids` is sorted."""

    name: str
    columns: list[str]
    ids: np.ndarray
    values: np.ndarray

    def rows(self, wanted: np.ndarray) -> np.ndarray:
        """The rows of these ids, in their order; zeros for an unknown id, as the batcher's feature store gives."""
        at = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        return np.where((self.ids[at] == wanted)[:, None], self.values[at], np.float32(0))


def build_views(dataset: Dataset, history: Ratings) -> tuple[View, View]:
    """The views of all users and items as they stood after `history`."""
    genres = sorted({genre for item in dataset.items for genre in item["class"].split()})
    item_ids, item_flags, year = _item_facts(dataset, genres)
    user_ids, profile = _user_facts(dataset)
    u, i = np.searchsorted(user_ids, history.user), np.searchsorted(item_ids, history.item)
    u_mean, u_cnt = _mean_and_count(u, history.rating, len(user_ids))
    i_mean, i_cnt = _mean_and_count(i, history.rating, len(item_ids))
    weight, total = np.zeros((2, len(user_ids), len(genres)))
    np.add.at(weight, u, item_flags[i])
    np.add.at(total, u, item_flags[i] * history.rating[:, None])
    genre_means = np.divide(total, weight, out=np.zeros_like(total), where=weight > 0)
    user_columns = ["age", "male", "occupation", "u_mean", "u_cnt", *(f"mean_{genre}" for genre in genres)]
    item_columns = [*(f"is_{genre}" for genre in genres), "year", "i_mean", "i_cnt"]
    user = np.column_stack([profile, u_mean, u_cnt, genre_means]).astype(np.float32)
    item = np.column_stack([item_flags, year, i_mean, i_cnt]).astype(np.float32)
    return View("user", user_columns, user_ids, user), View("item", item_columns, item_ids, item)


def _user_facts(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    occupations = sorted({user["occupation"] for user in dataset.users})
    users = sorted(dataset.users, key=lambda user: int(user["user_id"]))
    facts = [
        (float(user["age"]), float(user["gender"] == "M"), occupations.index(user["occupation"])) for user in users
    ]
    return np.array([int(user["user_id"]) for user in users]), np.array(facts)


def _item_facts(dataset: Dataset, genres: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    items = sorted(dataset.items, key=lambda item: int(item["item_id"]))
    flags = np.array([[float(genre in item["class"].split()) for genre in genres] for item in items])
    years = [int(item["release_year"]) if item["release_year"].isdigit() else MEDIAN_YEAR for item in items]
    return np.array([int(item["item_id"]) for item in items]), flags, np.array(years, dtype=float) - BASE_YEAR


def _mean_and_count(index: np.ndarray, rating: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    count = np.bincount(index, minlength=size).astype(float)
    total = np.bincount(index, weights=rating, minlength=size)
    return np.divide(total, count, out=np.zeros(size), where=count > 0), count
