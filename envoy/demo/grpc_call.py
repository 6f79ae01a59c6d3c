"""One predict call with the unmodified tritonclient: grpc_call.py --url HOST:PORT --key KEY [--user ID] [--item ID]

Prints one line of JSON. tritonclient is NVIDIA's own client; nothing in it knows of this mesh.
"""

import argparse
import json

import numpy as np
import tritonclient.grpc as triton


def tensor(name: str, value: int) -> triton.InferInput:
    result = triton.InferInput(name, [1, 1], "INT64")
    result.set_data_from_numpy(np.array([[value]], dtype=np.int64))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description="Scores a user and an item by gRPC.")
    parser.add_argument("--url", required=True, help="host:port of the gateway")
    parser.add_argument("--key", required=True, help="API key")
    parser.add_argument("--model", default="ranker@prod", help="model reference")
    parser.add_argument("--user", type=int, default=196)
    parser.add_argument("--item", type=int, default=242)
    options = parser.parse_args()
    # A proxy of the environment is for the outside; the gateway of the demo is on this machine.
    client = triton.InferenceServerClient(options.url, channel_args=[("grpc.enable_http_proxy", 0)])
    answer = client.infer(
        model_name=options.model,
        inputs=[tensor("user_id", options.user), tensor("item_id", options.item)],
        headers={"authorization": f"Bearer {options.key}"},
    )
    response = answer.get_response()
    score = float(answer.as_numpy("score")[0, 0])
    print(json.dumps({"model_name": response.model_name, "model_version": response.model_version, "score": score}))


if __name__ == "__main__":
    main()
