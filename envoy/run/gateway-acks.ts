import { setTimeout as sleep } from "node:timers/promises";
import type { AdminClient } from "@servemesh/xds-server";

const ROUTES_TYPE = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
const POLL_MS = 20;

/** What Envoy has acknowledged of its routes; undefined before the first time. */
export async function ackedRoutes(admin: AdminClient): Promise<string | undefined> {
  const { nodes } = await admin.getStatus();
  return nodes[0]?.types.find(({ typeUrl }) => typeUrl === ROUTES_TYPE)?.ackedVersion;
}

/**
 * Waits until Envoy has acknowledged other routes than `before`.
 * @returns how long it took in ms, or undefined after `timeoutMs`
 */
export async function waitRoutesAcked(
  admin: AdminClient,
  before: string | undefined,
  timeoutMs: number,
): Promise<number | undefined> {
  const startedMs = performance.now();
  while (performance.now() - startedMs < timeoutMs) {
    if ((await ackedRoutes(admin)) !== before) return performance.now() - startedMs;
    await sleep(POLL_MS);
  }
  return undefined;
}
