"""Trains the demo's models from MovieLens-100K and writes all that serving needs into one folder.

train.py --data FOLDER --transform MODULE --out FOLDER

OUT/manifest.json        versions with files, digests, AUC and serving spec; the views
OUT/repositories/<m>-<v> a Triton repository with just this version
OUT/views/<view>.{i64,f32}  entity ids and rows, little-endian, for the feature store
OUT/check/               some held-out rows before and after the transform, with every version's score
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from feature_views import View, build_views
from movielens import Dataset, Ratings, read_dataset, split_by_time
from onnx_export import check_against
from rankers import Trained, distil, train_further, train_trees, train_wide_network
from triton_repository import artifact_digest, lay_out
from wasm_transform import WasmTransform

VERSIONS = Path(__file__).parent / "versions.json"
MIN_AUC = 0.75
"""Below this, or not above what an item's mean rating alone gives, something is broken and nothing is written."""

UNKNOWN_SHARE = 0.02
"""Training rows whose user, and whose item, is made unknown, so that a row of zeros gets a sensible score."""

DISTILLATION_ROWS = 8_000
"""Of the training rows, and as many random pairs: scoring them is the costly part."""

JUDGED_ROWS = 8_000
"""Held-out rows that decide on the AUC; its standard error is then 0.005."""

CHECK_ROWS = 256
COMPARED_ROWS = 2048
"""Held-out rows on which the exported model must agree with the trained one."""

started = time.monotonic()


def say(line: str) -> None:
    print(f"[{time.monotonic() - started:5.1f} s] {line}", flush=True)


class Rows:
    """Feature rows of pairs of user and item, made by the transform that serving uses."""

    def __init__(self, views: tuple[View, View], transform: WasmTransform) -> None:
        self.views = views
        self._transform = transform

    def of(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        user, item = self.views
        return self._transform.run(user.rows(users), item.rows(items))


def with_unknown(ratings: Ratings, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Users and items of the ratings, a few of them replaced by an id that no view knows."""
    hide = rng.random((2, len(ratings))) < UNKNOWN_SHARE
    return np.where(hide[0], -1, ratings.user), np.where(hide[1], -1, ratings.item)


def train_all(dataset: Dataset, transform: WasmTransform) -> tuple[dict, Rows, Ratings]:
    """Trains every ranker. Returns them by (model, version), the serving rows, and the held-out ratings to judge by."""
    split = split_by_time(dataset.ratings)
    rng = np.random.default_rng(7)
    labels = split.labelled.labels
    features = Rows(build_views(dataset, split.history), transform).of(*with_unknown(split.labelled, rng))
    serving = Rows(build_views(dataset, split.train), transform)
    say(f"{len(features)} training rows of {features.shape[1]} features, {len(split.held_out)} rows held out")
    trained: dict[tuple[str, str], Trained] = {}
    trained["ranker", "41"] = train_wide_network(features, labels)
    say("ranker:41 trained")
    again = rng.permutation(len(features))[: len(features) // 3]
    trained["ranker", "42"] = train_further(trained["ranker", "41"], features[again], labels[again])
    say("ranker:42 trained")
    trained["ranker", "43"] = train_trees(features, labels)
    say("ranker:43 trained")
    user, item = serving.views
    pairs = serving.of(rng.choice(user.ids, DISTILLATION_ROWS), rng.choice(item.ids, DISTILLATION_ROWS))
    some = features[rng.permutation(len(features))[:DISTILLATION_ROWS]]
    trained["ranker-lite", "1"] = distil(trained["ranker", "41"], np.concatenate([some, pairs]))
    say("ranker-lite:1 distilled")
    judged = np.zeros(len(split.held_out), dtype=bool)
    judged[rng.permutation(len(judged))[:JUDGED_ROWS]] = True
    return trained, serving, split.held_out.where(judged)


def judge(name: str, score: np.ndarray, labels: np.ndarray, baseline: float) -> float:
    auc = float(roc_auc_score(labels, score))
    if auc < MIN_AUC or auc <= baseline:
        raise SystemExit(f"{name}: AUC {auc:.4f} is too low (floor {MIN_AUC}, item mean {baseline:.4f}); not written")
    return auc


def write_views(out: Path, views: tuple[View, View]) -> list[dict]:
    entries = []
    (out / "views").mkdir()
    for view in views:
        view.ids.astype("<i8").tofile(out / "views" / f"{view.name}.i64")
        view.values.astype("<f4").tofile(out / "views" / f"{view.name}.f32")
        entries.append({"name": view.name, "width": len(view.columns), "rows": len(view.ids), "columns": view.columns})
    return entries


def write_version(out: Path, model: str, version: str, declared: dict, onnx_bytes: bytes | None, lineage: dict) -> dict:
    folder = f"repositories/{model}-{version}"
    serving = declared["serving"]
    files = lay_out(out / folder, model, version, serving, onnx_bytes)
    return {
        "model": model,
        "version": version,
        "description": declared["versions"][version],
        "repository": folder,
        "files": files,
        "artifactDigest": artifact_digest(files),
        "lineage": lineage,
        "serving": serving,
    }


def write_all(out: Path, dataset: Dataset, transform: WasmTransform) -> None:
    declarations = json.loads(VERSIONS.read_text())
    for declared in declarations.values():
        if "sameServingAs" in declared:
            declared["serving"] = declarations[declared["sameServingAs"]]["serving"]
    trained, serving, held_out = train_all(dataset, transform)
    features = serving.of(held_out.user, held_out.item)
    baseline = float(roc_auc_score(held_out.labels, serving.views[1].rows(held_out.item)[:, -2]))
    say(f"baseline: AUC {baseline:.4f} of an item's mean rating alone")
    check = np.random.default_rng(3).choice(len(held_out), CHECK_ROWS, replace=False)
    write_check(out, serving, held_out, check, features[check])
    entries = []
    for model, declared in declarations.items():
        for version in declared["versions"]:
            ranker = trained.get((model, version))
            if ranker is None:
                entries.append(write_version(out, model, version, declared, None, {}))
                continue
            name = f"{model}:{version}"
            score = ranker.score(features)
            auc = judge(name, score, held_out.labels, baseline)
            graph = ranker.export(features.shape[1]).SerializeToString()
            lineage = {"data": "MovieLens-100K", "split": "per user by time, 80 % / 20 %", "auc": f"{auc:.4f}"}
            entry = write_version(out, model, version, declared, graph, lineage)
            path = out / entry["repository"] / model / version / "model.onnx"
            difference = check_against(path, features[:COMPARED_ROWS], score[:COMPARED_ROWS])
            score[check].astype("<f4").tofile(out / "check" / f"{model}-{version}.f32")
            entries.append({**entry, "auc": round(auc, 6)})
            say(f"{name}: AUC {auc:.4f}, ONNX within {difference:.1e}, {len(graph) / 1e6:.1f} MB")
    manifest = {
        "data": "MovieLens-100K",
        "baselineAuc": round(baseline, 6),
        "judgedRows": len(held_out),
        "views": write_views(out, serving.views),
        "versions": entries,
    }
    (out / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


def write_check(out: Path, serving: Rows, held_out: Ratings, rows: np.ndarray, features: np.ndarray) -> None:
    """What a test needs to see that serving computes what training did."""
    (out / "check").mkdir()
    pairs = np.column_stack([held_out.user[rows], held_out.item[rows]])
    pairs.astype("<i8").tofile(out / "check" / "pairs.i64")
    for view, ids in zip(serving.views, pairs.T):
        view.rows(ids).astype("<f4").tofile(out / "check" / f"view-{view.name}.f32")
    features.astype("<f4").tofile(out / "check" / "features.f32")


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains the demo's models.")
    parser.add_argument("--data", type=Path, required=True, help="folder with ml-100k.{inter,user,item}")
    parser.add_argument("--transform", type=Path, required=True, help="transform-ranker.wasm")
    parser.add_argument("--out", type=Path, required=True, help="an empty folder")
    options = parser.parse_args()
    write_all(options.out, read_dataset(options.data), WasmTransform(options.transform))
    say("done")


if __name__ == "__main__":
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    # The number of passes is chosen, not reached.
    warnings.filterwarnings("ignore", category=ConvergenceWarning)
    sys.exit(main())
