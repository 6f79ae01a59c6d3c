import type { UpstreamErrorKind } from "./upstream-error.js";

/** What is believed about the model server. `suspect` still serves while a probe finds out. */
export type HealthPhase = "starting" | "ready" | "suspect" | "unhealthy";

export interface HealthState {
  readonly phase: HealthPhase;
  /** Why it is not ready, for people; empty when ready. */
  readonly detail: string;
  /** Failed calls since the last good answer. */
  readonly failures: number;
  /** The model must be loaded again before it can answer. */
  readonly needsLoad: boolean;
}

export const INITIAL_HEALTH: HealthState = {
  phase: "starting",
  detail: "the model server has not answered yet",
  failures: 0,
  needsLoad: false,
};

/** Failures of any kind in a row that make a ready server suspect. One bad model answer is not an outage. */
const SUSPECT_AFTER_FAILURES = 5;

/**
 * What a real batch said about the server. Real answers raise doubt and probes settle it, save for a dead python process:
 * it never heals by itself, so routing must end before the model is loaded again.
 */
export function afterCall(state: HealthState, failure: UpstreamErrorKind | undefined, message: string): HealthState {
  if (failure === undefined) return state.failures === 0 ? state : { ...state, failures: 0 };
  // A refused input, or the server's own limit, is a working server.
  if (failure === "rejected" || failure === "busy") return state;
  const failures = state.failures + 1;
  const dead = failure === "stub_dead";
  const doubt = dead || failure === "unreachable" || failures >= SUSPECT_AFTER_FAILURES;
  if (state.phase !== "ready" || !doubt) return { ...state, failures, needsLoad: state.needsLoad || dead };
  return { phase: dead ? "unhealthy" : "suspect", detail: message, failures, needsLoad: dead };
}

/** What a probe (readiness calls, then one zero inference) found. */
export type ProbeResult =
  | { readonly kind: "ok" }
  | { readonly kind: "failed"; readonly failure: UpstreamErrorKind; readonly detail: string };

/** The probe decides: one good zero inference is ready, one failed probe is not. */
export function afterProbe(state: HealthState, probe: ProbeResult): HealthState {
  if (probe.kind === "ok") return { phase: "ready", detail: "", failures: 0, needsLoad: false };
  const phase = state.phase === "starting" ? "starting" : "unhealthy";
  return {
    phase,
    detail: probe.detail,
    failures: state.failures + 1,
    needsLoad: state.needsLoad || probe.failure === "stub_dead",
  };
}

/** Whether requests may be sent. */
export function isServing(state: HealthState): boolean {
  return state.phase === "ready" || state.phase === "suspect";
}
