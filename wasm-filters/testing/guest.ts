import { checkFilter, describeModule } from "#proxy-wasm-abi";
import { HostMisuseError, ModuleLoadError, ModuleTrapError, misuse } from "./host-errors.js";

/** A WebAssembly instance with every access to its memory checked. */
export class Guest {
  readonly #exports: Record<string, unknown>;
  readonly #memory: WebAssembly.Memory;
  /** Why no further call is possible; a trap ends a VM. */
  #failure: Error | undefined;
  #inMalloc = false;

  private constructor(instance: WebAssembly.Instance) {
    this.#exports = instance.exports;
    this.#memory = instance.exports.memory as WebAssembly.Memory;
  }

  /** Instantiates a module. Throws a ModuleLoadError when Envoy could not load it. */
  static load(bytes: Uint8Array, imports: WebAssembly.Imports): Guest {
    let module: WebAssembly.Module;
    try {
      module = new WebAssembly.Module(bytes);
    } catch (error) {
      throw new ModuleLoadError(`the module is not valid WebAssembly: ${(error as Error).message}`);
    }
    const problems = checkFilter(describeModule(bytes));
    if (problems.length > 0) throw new ModuleLoadError(`the module ${problems.join("; ")}`);
    return new Guest(new WebAssembly.Instance(module, imports));
  }

  get memoryBytes(): number {
    return this.#memory.buffer.byteLength;
  }

  /** Value of an exported global. */
  global(name: string): number {
    const found = this.#exports[name] as { readonly value: number } | undefined;
    if (typeof found?.value !== "number") throw new Error(`the module exports no global ${name}`);
    return found.value;
  }

  has(callback: string): boolean {
    return typeof this.#exports[callback] === "function";
  }

  /** Calls an export; 0 when there is none. Throws a ModuleTrapError on a trap, and passes on what host functions throw. */
  call(callback: string, ...parameters: number[]): number {
    if (this.#failure) throw new ModuleTrapError(`the VM has already failed: ${this.#failure.message}`);
    const target = this.#exports[callback];
    if (typeof target !== "function") return 0;
    try {
      return Number(target(...parameters) ?? 0);
    } catch (error) {
      this.#failure = error as Error;
      if (error instanceof HostMisuseError) throw error;
      throw new ModuleTrapError(`${callback} trapped: ${(error as Error).stack ?? String(error)}`);
    }
  }

  /** True while the host is inside the module's malloc, where the module may not call back. */
  get inMalloc(): boolean {
    return this.#inMalloc;
  }

  /** A copy of bytes that the module points at. */
  read(pointer: number, length: number, what: string): Buffer {
    return Buffer.from(this.#view(pointer, length, what));
  }

  text(pointer: number, length: number, what: string): string {
    return this.read(pointer, length, what).toString("latin1");
  }

  writeU32(pointer: number, value: number, what: string): void {
    this.#view(pointer, 4, what).writeUInt32LE(value >>> 0);
  }

  writeU64(pointer: number, value: bigint, what: string): void {
    this.#view(pointer, 8, what).writeBigUInt64LE(BigInt.asUintN(64, value));
  }

  /**
   * Hands bytes over as the host does: in a block of the module's malloc, with address and length written back; nothing is
   * address 0 and length 0, without malloc.
   */
  give(bytes: Uint8Array, outPointer: number, outLength: number, what: string): void {
    // Checked before malloc, whose growth may hide a bad address.
    this.#view(outPointer, 4, what);
    this.#view(outLength, 4, what);
    if (bytes.length === 0) {
      this.writeU32(outPointer, 0, what);
      this.writeU32(outLength, 0, what);
      return;
    }
    const malloc = this.#exports.malloc as (size: number) => number;
    this.#inMalloc = true;
    const block = malloc(bytes.length) >>> 0;
    this.#inMalloc = false;
    if (block === 0) misuse(`malloc(${bytes.length}) gave no block`);
    this.#view(block, bytes.length, "block of malloc").set(bytes);
    this.writeU32(outPointer, block, what);
    this.writeU32(outLength, bytes.length, what);
  }

  #view(pointer: number, length: number, what: string): Buffer {
    const start = pointer >>> 0;
    const size = length >>> 0;
    if (start === 0 && size > 0) misuse(`${what}: null pointer with ${size} bytes`);
    if (start + size > this.#memory.buffer.byteLength) misuse(`${what}: ${size} bytes at ${start} lie outside memory`);
    return Buffer.from(this.#memory.buffer, start, size);
  }
}
