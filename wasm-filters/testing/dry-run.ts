import { H_ROUTE, ROUTE_SERVER_LIVE } from "@servemesh/proto/names";
import { createMockHost } from "./mock-host.js";

/** Whether a gate and its configuration may be pushed; `problem` is one sentence. */
export type DryRunResult = { readonly ok: true } | { readonly ok: false; readonly problem: string };

const ERROR_LEVEL = 4;

/**
 * Loads a gate and a configuration as Envoy would and runs two requests through it: a liveness call, which must pass with
 * its route, and a predict call without a key, which must be refused. A module with a start section crashes a running
 * Envoy, and one that refuses its configuration is rejected by it; so nothing is pushed that has not passed here.
 * Never throws.
 */
export function dryRunGate(moduleBytes: Uint8Array, blob: Uint8Array): DryRunResult {
  try {
    const problem = findProblem(moduleBytes, blob);
    return problem === undefined ? { ok: true } : { ok: false, problem };
  } catch (error) {
    return { ok: false, problem: firstLine(error) };
  }
}

function findProblem(moduleBytes: Uint8Array, blob: Uint8Array): string | undefined {
  const host = createMockHost(moduleBytes);
  if (!host.configure(blob)) {
    const said = host.logs.findLast((line) => line.level >= ERROR_LEVEL);
    return said?.text ?? "the module refuses the configuration and does not say why";
  }
  const live = host.openStream();
  const liveVerdict = live.requestHeaders(requestTo("GET", "/v2/health/live"), true);
  const route = live.upstream.headers.find(([name]) => name === H_ROUTE)?.[1];
  live.close();
  if (liveVerdict !== "passed" || route !== ROUTE_SERVER_LIVE) {
    return `the module does not let a liveness call pass to ${ROUTE_SERVER_LIVE} (${liveVerdict}, route ${route ?? "none"})`;
  }
  const keyless = host.openStream();
  const verdict = keyless.requestHeaders(requestTo("POST", "/v1/models/any:predict"), false);
  const status = keyless.reply?.httpStatus;
  keyless.close();
  if (verdict !== "refused" || status !== 401) {
    return `the module does not refuse a predict call without a key (${verdict}, status ${status ?? "none"})`;
  }
  return undefined;
}

function requestTo(method: string, path: string) {
  return [
    [":method", method],
    [":path", path],
    [":scheme", "http"],
    [":authority", "dry-run"],
  ] as const;
}

function firstLine(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.split("\n", 1)[0] ?? text;
}
