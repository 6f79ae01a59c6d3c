import { setTimeout as sleep } from "node:timers/promises";

/**
 * Asks again and again until `probe` gives something, and gives that. For what happens in other processes, whose time nobody
 * can inject. A rejecting probe counts as "not yet".
 * @throws Error with `what`, the time waited and the last rejection
 */
export async function eventually<T>(
  what: string,
  probe: () => Promise<T | undefined> | T | undefined,
  { timeoutMs, everyMs = 50 }: { readonly timeoutMs: number; readonly everyMs?: number },
): Promise<T> {
  const endMs = performance.now() + timeoutMs;
  for (let last: unknown; ; ) {
    try {
      const found = await probe();
      if (found !== undefined) return found;
    } catch (error) {
      last = error;
    }
    if (performance.now() > endMs) {
      const why = last === undefined ? "" : `; last problem: ${last instanceof Error ? last.message : String(last)}`;
      throw new Error(`${what} did not happen within ${timeoutMs} ms${why}`);
    }
    await sleep(everyMs);
  }
}
