/** The module broke a rule of the ABI. Envoy would answer BadArgument, hang the stream, or worse; here the test fails. */
export class HostMisuseError extends Error {
  override readonly name = "HostMisuseError";
}

/** The module trapped. In Envoy this fails every request in flight on the worker. */
export class ModuleTrapError extends Error {
  override readonly name = "ModuleTrapError";
}

/** The module cannot be loaded. The message says why, in the words of proxy-wasm-abi.mjs. */
export class ModuleLoadError extends Error {
  override readonly name = "ModuleLoadError";
}

export function misuse(problem: string): never {
  throw new HostMisuseError(problem);
}
