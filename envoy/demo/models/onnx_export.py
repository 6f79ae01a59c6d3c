"""Trained models to ONNX graphs with one input `features` FP32 [-1,47] and one output `score` FP32 [-1,1]."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from lightgbm import Booster
from onnx import TensorProto, helper
from onnx.utils import Extractor
from onnxmltools import convert_lightgbm
from onnxmltools.convert.common.data_types import FloatTensorType as LightgbmFloat
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType
from sklearn.pipeline import Pipeline

OPSET = 15
INPUT, OUTPUT = "features", "score"


def export_classifier(model: Pipeline | Booster, width: int) -> onnx.ModelProto:
    """The probability of the positive class becomes `score`."""
    if isinstance(model, Booster):
        graph = convert_lightgbm(
            model,
            # Without a name the graph gets a random one, and the artifact another digest each time.
            name="trees",
            initial_types=[(INPUT, LightgbmFloat([None, width]))],
            zipmap=False,
            target_opset=OPSET,
        )
    else:
        initial = [(INPUT, FloatTensorType([None, width]))]
        graph = to_onnx(model, initial_types=initial, options={"zipmap": False}, target_opset=OPSET)
    probabilities = graph.graph.output[1].name
    positive = helper.make_node("Gather", [probabilities, "positive_class"], [OUTPUT], name="take_positive", axis=1)
    index = helper.make_tensor("positive_class", TensorProto.INT64, [1], [1])
    return _finish(graph, positive, index, width)


def export_logit_regressor(model: Pipeline, width: int) -> onnx.ModelProto:
    """A regressor of the logit: its sigmoid becomes `score`."""
    graph = to_onnx(model, initial_types=[(INPUT, FloatTensorType([None, width]))], target_opset=OPSET)
    squash = helper.make_node("Sigmoid", [graph.graph.output[0].name], [OUTPUT], name="squash")
    return _finish(graph, squash, None, width)


def check_against(path: Path, features: np.ndarray, expected: np.ndarray, tolerance: float = 1e-4) -> float:
    """Runs the exported file; returns the largest difference, raises SystemExit when it is above the tolerance."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    score = session.run([OUTPUT], {INPUT: features})[0]
    if score.shape != (len(features), 1) or score.dtype != np.float32:
        raise SystemExit(f"{path}: score is {score.dtype}{list(score.shape)}, expected float32[{len(features)}, 1]")
    difference = float(np.abs(score[:, 0] - expected).max())
    if not difference <= tolerance:
        raise SystemExit(f"{path}: ONNX differs from the trained model by {difference:.2g}, allowed is {tolerance}")
    return difference


def _finish(model: onnx.ModelProto, last: onnx.NodeProto, index: TensorProto | None, width: int) -> onnx.ModelProto:
    graph = model.graph
    graph.node.append(last)
    if index is not None:
        graph.initializer.append(index)
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [None, 1]))
    graph.input[0].CopyFrom(helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [None, width]))
    # Leaves out what only the class label needed.
    finished = Extractor(model).extract_model([INPUT], [OUTPUT])
    onnx.checker.check_model(finished)
    return finished
