import { type ModuleFile, readModule } from "./files.js";

/** A feature transform: rows of views in, rows of features out (see assembly/transform/ranker.ts for the rules). */
export interface Transform {
  readonly name: string;
  /** SHA-256 of the module's bytes, lower-case hex. */
  readonly digest: string;
  /** Floats per row of each view, in the order of `run`'s `views`. */
  readonly viewWidths: readonly number[];
  /** Floats per row of the output. */
  readonly outputWidth: number;
  /**
   * Transforms `rows` rows of little-endian FP32.
   * Throws a TypeError that names the view when a length does not fit; there is no other failure.
   */
  run(rows: number, views: readonly Uint8Array[]): Uint8Array;
}

const FLOAT_BYTES = 4;
/** Rows per call into the module: bounds its memory whatever the batch. */
const CHUNK_ROWS = 4096;
const TRANSFORM_NAME = /^[a-z0-9][a-z0-9-]{0,62}$/;

interface TransformExports {
  readonly memory: WebAssembly.Memory;
  view_count(): number;
  view_width(view: number): number;
  output_width(): number;
  reset(): void;
  alloc(bytes: number): number;
  transform(rows: number, ...pointers: number[]): void;
}

/** Loads `build/transform-<name>.wasm`. Rejects when it is not built or is not a transform module. */
export async function loadTransform(name: string): Promise<Transform> {
  if (!TRANSFORM_NAME.test(name))
    throw new Error(`transform name ${JSON.stringify(name)} must match ${TRANSFORM_NAME}`);
  return instantiateTransform(name, readModule(`transform-${name}`));
}

async function instantiateTransform(name: string, file: ModuleFile): Promise<Transform> {
  const { instance } = await WebAssembly.instantiate(file.bytes, {});
  const exports = instance.exports as unknown as TransformExports;
  for (const needed of ["alloc", "reset", "transform", "view_count", "view_width", "output_width"] as const) {
    if (typeof exports[needed] !== "function") throw new Error(`module of transform ${name} does not export ${needed}`);
  }
  const viewWidths = Array.from({ length: exports.view_count() }, (_, view) => exports.view_width(view));
  const outputWidth = exports.output_width();

  /** Runs at most CHUNK_ROWS rows from `firstRow` on. */
  function runChunk(firstRow: number, rows: number, views: readonly Uint8Array[], output: Uint8Array): void {
    exports.reset();
    const viewPointers = viewWidths.map((width) => allocate(rows * width * FLOAT_BYTES));
    const outputPointer = allocate(rows * outputWidth * FLOAT_BYTES);
    // Only now, because alloc may have grown the memory and detached an older view.
    const memory = new Uint8Array(exports.memory.buffer);
    viewWidths.forEach((width, index) => {
      const rowBytes = width * FLOAT_BYTES;
      memory.set(
        (views[index] as Uint8Array).subarray(firstRow * rowBytes, (firstRow + rows) * rowBytes),
        viewPointers[index] as number,
      );
    });
    exports.transform(rows, ...viewPointers, outputPointer);
    const outputRowBytes = outputWidth * FLOAT_BYTES;
    output.set(memory.subarray(outputPointer, outputPointer + rows * outputRowBytes), firstRow * outputRowBytes);
  }

  function allocate(bytes: number): number {
    const pointer = exports.alloc(bytes) >>> 0;
    if (pointer === 0) throw new Error(`module of transform ${name} could not allocate ${bytes} bytes`);
    return pointer;
  }

  return {
    name,
    digest: file.sha256,
    viewWidths,
    outputWidth,
    run(rows, views) {
      checkInput(name, rows, views, viewWidths);
      const output = new Uint8Array(rows * outputWidth * FLOAT_BYTES);
      for (let row = 0; row < rows; row += CHUNK_ROWS) runChunk(row, Math.min(CHUNK_ROWS, rows - row), views, output);
      return output;
    },
  };
}

function checkInput(name: string, rows: number, views: readonly Uint8Array[], widths: readonly number[]): void {
  if (!Number.isSafeInteger(rows) || rows < 0) {
    throw new TypeError(`transform ${name}: rows is ${rows}, it must be a whole number from 0 up`);
  }
  if (views.length !== widths.length) {
    throw new TypeError(`transform ${name} takes ${widths.length} views, got ${views.length}`);
  }
  widths.forEach((width, index) => {
    const expectedBytes = rows * width * FLOAT_BYTES;
    const gotBytes = views[index]?.byteLength;
    if (gotBytes !== expectedBytes) {
      throw new TypeError(
        `transform ${name}: view ${index} must have ${expectedBytes} bytes (${rows} rows of ${width} FP32), got ${gotBytes}`,
      );
    }
  });
}
