"""Lays out one Triton repository per version: `<model>/config.pbtxt`, `<model>/<version>/model.py` and model.onnx."""

import hashlib
import shutil
from pathlib import Path

HERE = Path(__file__).parent
TRITON_MAX_BATCH_SIZE = 64
"""Not the version's own batch size but an upper bound, so that a version may be registered with larger batches."""

TRITON_TYPES = {"FP32": "TYPE_FP32", "INT64": "TYPE_INT64", "BYTES": "TYPE_STRING"}

CONFIG = """name: "{model}"
backend: "python"
max_batch_size: {max_batch_size}
input [{inputs}
]
output [{outputs}
]
instance_group [ {{ kind: KIND_CPU count: 1 }} ]
version_policy: {{ specific: {{ versions: [ {version} ] }} }}
"""


def lay_out(folder: Path, model: str, version: str, serving: dict, onnx_bytes: bytes | None) -> list[dict]:
    """Writes the repository; without ONNX the model echoes its inputs. Returns its files with their digests.

    Dynamic batching stays off: the batcher makes the batches.
    """
    target = folder / model
    (target / version).mkdir(parents=True)
    inputs = serving.get("upstreamInputs", serving["inputs"])
    config = CONFIG.format(
        model=model,
        version=version,
        max_batch_size=TRITON_MAX_BATCH_SIZE,
        inputs=_tensors(inputs),
        outputs=_tensors(serving["outputs"]),
    )
    (target / "config.pbtxt").write_text(config)
    backend = "echo_model.py" if onnx_bytes is None else "onnx_model.py"
    shutil.copyfile(HERE / "triton" / backend, target / version / "model.py")
    if onnx_bytes is not None:
        (target / version / "model.onnx").write_bytes(onnx_bytes)
    return [
        {"path": str(path.relative_to(folder)), "bytes": path.stat().st_size, "sha256": _sha256(path)}
        for path in sorted(target.rglob("*"))
        if path.is_file()
    ]


def artifact_digest(files: list[dict]) -> str:
    """One digest of all files, in the form of `sha256sum`'s output sorted by path."""
    listing = "".join(f"{file['sha256']}  {file['path']}\n" for file in files)
    return f"sha256:{hashlib.sha256(listing.encode()).hexdigest()}"


def _tensors(specs: list[dict]) -> str:
    def one(spec: dict) -> str:
        dims = ", ".join(spec["shape"][1:])
        return f'\n  {{ name: "{spec["name"]}" data_type: {TRITON_TYPES[spec["datatype"]]} dims: [ {dims} ] }}'

    return ",".join(one(spec) for spec in specs)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
