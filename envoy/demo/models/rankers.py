"""The ranker's versions: what each is and how it is trained. Seeds are fixed: a machine repeats its results."""

import copy
import re
from dataclasses import dataclass

import numpy as np
import onnx
from lightgbm import Booster, LGBMClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from onnx_export import export_classifier, export_logit_regressor

WIDE = (2048, 2048, 1024)
SMALL = (64, 32)


@dataclass(frozen=True)
class Trained:
    """A trained version: its scores for feature rows, and its ONNX graph."""

    model: Pipeline | Booster
    is_logit_regressor: bool = False

    def score(self, features: np.ndarray) -> np.ndarray:
        if self.is_logit_regressor:
            return 1 / (1 + np.exp(-self.model.predict(features).astype(np.float64)))
        if isinstance(self.model, Booster):
            return self.model.predict(features)
        return self.model.predict_proba(features)[:, 1]

    def export(self, width: int) -> onnx.ModelProto:
        return (export_logit_regressor if self.is_logit_regressor else export_classifier)(self.model, width)


def train_wide_network(features: np.ndarray, labels: np.ndarray) -> Trained:
    """One pass over the rows is most of what there is to gain."""
    network = MLPClassifier(
        hidden_layer_sizes=WIDE, max_iter=1, batch_size=512, learning_rate_init=1e-3, random_state=41
    )
    return Trained(_fit(network, features, labels))


def train_further(start: Trained, features: np.ndarray, labels: np.ndarray) -> Trained:
    """A copy that has gone on learning from these rows: what a retrained candidate usually is."""
    pipeline = copy.deepcopy(start.model)
    scaler, network = (step for _, step in pipeline.steps)
    network.partial_fit(scaler.transform(features), labels)
    return Trained(pipeline)


def train_trees(features: np.ndarray, labels: np.ndarray) -> Trained:
    trees = LGBMClassifier(
        n_estimators=300,
        num_leaves=31,
        learning_rate=0.03,
        min_child_samples=50,
        random_state=43,
        n_jobs=2,
        deterministic=True,
        force_row_wise=True,
        verbose=-1,
    )
    return Trained(_with_float_thresholds(trees.fit(features, labels).booster_))


def _with_float_thresholds(booster: Booster) -> Booster:
    """LightGBM compares with doubles, ONNX with floats. The largest float that is not above a threshold decides the
    same for every float feature; the nearest one, which the converter would take, sends some rows to the other side.
    """

    def floored(line: re.Match) -> str:
        exact = np.array(line[1].split(), dtype=np.float64)
        near = exact.astype(np.float32)
        near = np.where(near > exact, np.nextafter(near, np.float32(-np.inf)), near)
        return "threshold=" + " ".join(repr(float(value)) for value in near)

    text = re.sub(r"^threshold=(.*)$", floored, booster.model_to_string(), flags=re.MULTILINE)
    # The sizes in bytes of the trees' texts are no longer right; without them the reader counts for itself.
    return Booster(model_str=re.sub(r"^tree_sizes=.*\n", "", text, flags=re.MULTILINE))


def distil(teacher: Trained, features: np.ndarray) -> Trained:
    """A small network that learns the teacher's logits; it needs no labels, so any pair of user and item will do."""
    score = np.clip(teacher.score(features), 1e-4, 1 - 1e-4)
    logit = np.log(score / (1 - score)).astype(np.float32)
    student = MLPRegressor(
        hidden_layer_sizes=SMALL, max_iter=12, batch_size=256, learning_rate_init=2e-3, random_state=1
    )
    return Trained(_fit(student, features, logit), is_logit_regressor=True)


def _fit(network: MLPClassifier | MLPRegressor, features: np.ndarray, target: np.ndarray) -> Pipeline:
    pipeline = make_pipeline(StandardScaler(), network)
    with np.errstate(all="ignore"):
        return pipeline.fit(features, target)
