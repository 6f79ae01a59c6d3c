/** Types of compile-filter.mjs, which says more. */
export function compileFilter(source: string, options?: readonly string[]): Promise<Uint8Array>;
