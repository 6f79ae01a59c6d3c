"""Calls the mesh with the unmodified tritonclient and prints, as JSON, what the library gave its caller.

Reads one JSON object from standard input: {"door": "http" | "grpc", "address", "model", "version", "headers",
"inputs": [{"name", "datatype", "shape", "values"}], "outputs": [name], "binary": bool}.
Prints {"outputs": {name: [[…]]}, "model_version", "headers"} or {"error": text, "status": text}.
"""

import json
import sys

import numpy as np
from tritonclient.utils import InferenceServerException, triton_to_np_dtype


def infer_input(library, spec):
    # For tests of refusals the datatype on the wire may be another than that of the values.
    values = np.array(spec["values"], dtype=triton_to_np_dtype(spec.get("value_datatype", spec["datatype"])))
    tensor = library.InferInput(spec["name"], spec["shape"], spec["datatype"])
    if "value_datatype" in spec or list(values.shape) != spec["shape"]:
        # Past the library's own checks: as a caller with a bug of his own would send it.
        if hasattr(tensor, "_raw_data"):
            tensor._raw_data = values.tobytes()
            tensor._parameters["binary_data_size"] = len(tensor._raw_data)
        else:
            tensor._raw_content = values.tobytes()
    else:
        tensor.set_data_from_numpy(values)
    return tensor


def call(order):
    if order["door"] == "http":
        import tritonclient.http as library

        client = library.InferenceServerClient(order["address"])
        outputs = [library.InferRequestedOutput(name, binary_data=order.get("binary", True)) for name in order["outputs"]]
    else:
        import tritonclient.grpc as library

        client = library.InferenceServerClient(order["address"])
        outputs = [library.InferRequestedOutput(name) for name in order["outputs"]]
    inputs = [infer_input(library, spec) for spec in order["inputs"]]
    answer = client.infer(
        order["model"], inputs, model_version=order.get("version", ""), outputs=outputs, headers=order.get("headers")
    )
    response = answer.get_response()
    version = response["model_version"] if isinstance(response, dict) else response.model_version
    return {
        "outputs": {name: answer.as_numpy(name).tolist() for name in order["outputs"]},
        "model_version": version,
    }


def main():
    try:
        print(json.dumps(call(json.load(sys.stdin))))
    except InferenceServerException as refusal:
        print(json.dumps({"error": refusal.message(), "status": str(refusal.status())}))


main()
