"""Triton python backend: runs the model.onnx beside this file on onnxruntime, one thread, one execution per request."""

import json
from pathlib import Path

import onnxruntime
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self._inputs = [tensor["name"] for tensor in config["input"]]
        self._outputs = [tensor["name"] for tensor in config["output"]]
        options = onnxruntime.SessionOptions()
        # One replica stands for one accelerator that does one batch at a time; more threads would only fight for cores.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        path = Path(args["model_repository"]) / args["model_version"] / "model.onnx"
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        try:
            feed = {name: pb.get_input_tensor_by_name(request, name).as_numpy() for name in self._inputs}
            values = self._session.run(self._outputs, feed)
        except Exception as error:  # One bad request must not take the process down with it.
            return pb.InferenceResponse(error=pb.TritonError(f"onnxruntime: {error}"))
        return pb.InferenceResponse([pb.Tensor(name, value) for name, value in zip(self._outputs, values)])
