/** Types of proxy-wasm-abi.mjs, which says more. */
export interface ModuleDescription {
  /** Type by `module.name`. */
  readonly imports: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, string>>;
  readonly hasStart: boolean;
}
export const FILTER_IMPORTS: Readonly<Record<string, string>>;
export function describeModule(bytes: Uint8Array): ModuleDescription;
export function checkFilter(description: ModuleDescription): string[];
