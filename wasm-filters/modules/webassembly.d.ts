/** The part of the WebAssembly API that we use; neither lib ES2023 nor @types/node 20 declares it. */
declare namespace WebAssembly {
  type ImportValue = (...parameters: never[]) => unknown;
  type Imports = Record<string, Record<string, ImportValue>>;

  class Module {
    constructor(bytes: Uint8Array);
    static imports(module: Module): { module: string; name: string; kind: string }[];
    static exports(module: Module): { name: string; kind: string }[];
  }

  class Instance {
    constructor(module: Module, imports: Imports);
    readonly exports: Record<string, unknown>;
  }

  class Memory {
    readonly buffer: ArrayBuffer;
  }

  class RuntimeError extends Error {}

  function instantiate(bytes: Uint8Array, imports: Imports): Promise<{ instance: Instance; module: Module }>;
}
