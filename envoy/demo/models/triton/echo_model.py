"""Triton python backend: returns each input under the name of the output at the same place."""

import json

import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self._names = [(i["name"], o["name"]) for i, o in zip(config["input"], config["output"])]

    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        tensors = [
            pb.Tensor(output, pb.get_input_tensor_by_name(request, name).as_numpy()) for name, output in self._names
        ]
        return pb.InferenceResponse(tensors)
