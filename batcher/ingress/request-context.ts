import { randomUUID } from "node:crypto";
import type { Metadata } from "@grpc/grpc-js";
import {
  H_ENVOY_ATTEMPT,
  H_ENVOY_EXPECTED_TIMEOUT,
  H_FIRST,
  H_LEG,
  H_PRIORITY,
  H_REQUEST_ID,
  H_ROUTE,
  H_SHADOW_CLUSTER,
  H_TENANT,
  H_VERSION,
  LEG_SHADOW,
  MAX_TIMEOUT_MS,
  PRIORITY_INTERACTIVE,
} from "@servemesh/proto/names";
import { PredictError, type RequestContext } from "../request.js";
import { badInput, quote } from "./bad-input.js";
import { formatServed, type ServedModel } from "./served-model.js";

/** Tenant of a call that came without a gateway. */
export const DIRECT_TENANT = "direct";

const MAX_HEADER_CHARS = 256;
const TENANT = /^[A-Za-z0-9][A-Za-z0-9._@/-]*$/;
const LOOPBACK_PEER = /^(127\.|::1(:|$)|::ffff:127\.|\[::1\])/;

/** True for a peer on this machine, the only place where plain text may carry mesh headers (DESIGN §9). */
export function isLoopbackPeer(peer: string): boolean {
  return LOOPBACK_PEER.test(peer);
}

export interface CallTimes {
  /** Monotonic clock. */
  readonly arrivedAtMs: number;
  /** Epoch ms, to relate `callDeadline` to the monotonic clock. */
  readonly wallMs: number;
  /** The call's own deadline (`grpc-timeout`) as epoch ms; Infinity without one. */
  readonly callDeadlineMs: number;
  /** Kept back from the deadline. */
  readonly marginMs: number;
}

/**
 * Reads what the mesh says about a request. A call without a route header is a direct one (tests, benchmarks): its
 * route is the batcher's own version.
 * @throws PredictError `unauthenticated` when there is no single tenant, `unavailable` when Envoy meant another version,
 * `bad_input` for a malformed timeout or request id
 */
export function readContext(metadata: Metadata, served: ServedModel, times: CallTimes): RequestContext {
  const own = formatServed(served);
  const route = single(metadata, H_ROUTE);
  const direct = route === undefined;
  const version = single(metadata, H_VERSION) ?? own;
  if (version !== own) {
    // An endpoint that has changed hands faster than the routes: nobody may get another version's answer.
    throw new PredictError(
      "unavailable",
      `this replica serves ${own}, the request is for ${quote(version)}; try again`,
      1000,
    );
  }
  const priority = single(metadata, H_PRIORITY) ?? PRIORITY_INTERACTIVE;
  const leg = single(metadata, H_LEG) === LEG_SHADOW ? "shadow" : "primary";
  return {
    requestId: readRequestId(metadata),
    tenant: readTenant(metadata, direct),
    priority: priority === PRIORITY_INTERACTIVE ? "interactive" : "batch",
    route: route ?? `${served.model}/${served.version}`,
    version,
    first: readFirst(metadata, own),
    leg,
    paired: leg === "shadow" || metadata.get(H_SHADOW_CLUSTER).length > 0,
    attempt: readAttempt(metadata),
    arrivedAtMs: times.arrivedAtMs,
    deadlineAtMs: readDeadline(metadata, times),
  };
}

/** The route of a call, undefined for a direct one. @throws PredictError when there are several */
export function readRoute(metadata: Metadata): string | undefined {
  return single(metadata, H_ROUTE);
}

function single(metadata: Metadata, name: string): string | undefined {
  const values = metadata.get(name);
  if (values.length === 0) return undefined;
  const value = String(values[0]);
  if (values.length > 1 || value.length > MAX_HEADER_CHARS) {
    throw new PredictError(
      "unauthenticated",
      `header ${name} must have one value of at most ${MAX_HEADER_CHARS} characters`,
    );
  }
  return value;
}

function readTenant(metadata: Metadata, direct: boolean): string {
  const tenant = single(metadata, H_TENANT);
  if (tenant === undefined && direct) return DIRECT_TENANT;
  // HTTP joins repeated headers with commas, which no tenant name has.
  if (tenant === undefined || !TENANT.test(tenant)) {
    throw new PredictError("unauthenticated", `header ${H_TENANT} must be exactly one tenant name; the gate sets it`);
  }
  return tenant;
}

function readRequestId(metadata: Metadata): string {
  const value = metadata.get(H_REQUEST_ID)[0];
  if (value === undefined) return randomUUID();
  if (typeof value !== "string" || value.length === 0 || value.length > MAX_HEADER_CHARS) {
    throw badInput(`header ${H_REQUEST_ID} must have 1 to ${MAX_HEADER_CHARS} characters`);
  }
  return value;
}

function readFirst(metadata: Metadata, own: string): readonly string[] {
  const value = single(metadata, H_FIRST);
  if (value === undefined || value === own) return [own];
  return value
    .split(",")
    .map((version) => version.trim())
    .filter((version) => version !== "");
}

function readAttempt(metadata: Metadata): number {
  const value = metadata.get(H_ENVOY_ATTEMPT)[0];
  const attempt = typeof value === "string" && /^\d{1,4}$/.test(value) ? Number(value) : 1;
  return Math.max(1, attempt);
}

/** The smaller of the call's deadline and Envoy's expectation: a retry repeats the first and reduces the second. */
function readDeadline(metadata: Metadata, times: CallTimes): number {
  const own = times.callDeadlineMs - times.wallMs;
  const remainingMs = Math.min(own, readExpectedTimeout(metadata));
  if (remainingMs === Number.POSITIVE_INFINITY) return Number.POSITIVE_INFINITY;
  return times.arrivedAtMs + Math.min(remainingMs, MAX_TIMEOUT_MS) - times.marginMs;
}

function readExpectedTimeout(metadata: Metadata): number {
  const value = metadata.get(H_ENVOY_EXPECTED_TIMEOUT)[0];
  if (value === undefined || value === "0") return Number.POSITIVE_INFINITY;
  if (typeof value !== "string" || !/^\d{1,12}$/.test(value)) {
    throw badInput(`header ${H_ENVOY_EXPECTED_TIMEOUT} is ${quote(String(value))}; it must be whole milliseconds`);
  }
  return Number(value);
}
