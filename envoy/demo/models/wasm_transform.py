"""Runs a transform module of wasm-filters (its rules stand in assembly/transform/ranker.ts) through wasmtime.

The batcher runs the very same bytes, so training and serving features are bit-equal. As a command it transforms files
of little-endian FP32: wasm_transform.py MODULE ROWS OUTPUT VIEW...
"""

import sys
from pathlib import Path

import numpy as np
from wasmtime import Engine, Instance, Module, Store

CHUNK_ROWS = 4096
"""Rows per call: bounds the module's memory."""


class WasmTransform:
    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise SystemExit(f"{path} is missing; `npm run setup` builds it (step: wasm modules)")
        self._store = Store(Engine())
        module = Module.from_file(self._store.engine, str(path))
        self._exports = Instance(self._store, module, []).exports(self._store)
        self.view_widths = [self._call("view_width", view) for view in range(self._call("view_count"))]
        self.output_width = self._call("output_width")

    def run(self, *views: np.ndarray) -> np.ndarray:
        """Rows of each view in, rows of features out; all FP32. Raises ValueError when a shape does not fit."""
        shapes = [view.shape for view in views]
        rows = len(views[0]) if views else 0
        if shapes != [(rows, width) for width in self.view_widths]:
            raise ValueError(f"the transform takes views of widths {self.view_widths}, got shapes {shapes}")
        chunks = [self._run_chunk([view[at : at + CHUNK_ROWS] for view in views]) for at in range(0, rows, CHUNK_ROWS)]
        return np.concatenate(chunks) if chunks else np.empty((0, self.output_width), "<f4")

    def _run_chunk(self, views: list[np.ndarray]) -> np.ndarray:
        rows = len(views[0])
        self._call("reset")
        pointers = [self._call("alloc", rows * width * 4) for width in [*self.view_widths, self.output_width]]
        memory = self._exports["memory"]
        for view, pointer in zip(views, pointers):
            memory.write(self._store, np.ascontiguousarray(view, "<f4").tobytes(), pointer)
        self._call("transform", rows, *pointers)
        raw = memory.read(self._store, pointers[-1], pointers[-1] + rows * self.output_width * 4)
        return np.frombuffer(bytes(raw), "<f4").reshape(rows, self.output_width)

    def _call(self, name: str, *args: int) -> int:
        return self._exports[name](self._store, *args)


def _main() -> None:
    module, rows, output, *view_files = sys.argv[1:]
    transform = WasmTransform(Path(module))
    views = [np.fromfile(file, "<f4").reshape(int(rows), -1) for file in view_files]
    transform.run(*views).tofile(output)


if __name__ == "__main__":
    _main()
