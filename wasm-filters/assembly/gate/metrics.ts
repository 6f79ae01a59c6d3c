import { defineCounter, incrementMetric, literal, Span } from "../proxy-wasm/index";
import { REASONS, Reason } from "./reasons";

/*
 * `servemesh_gate_requests_total.reason.<word>`: requests by the gate's verdict, `ok` when it let them pass. Counters are
 * never freed, and these names are bounded by the list of reasons. README.md has the stats_tags rule that makes `reason` a
 * label.
 */
const OK = literal("servemesh_gate_requests_total.reason.ok");
const PREFIX_BYTES: u32 = OK.length - 2;
const NAME_BYTES: usize = 128;
const name: usize = memory.data(128);
const span = new Span();
let passed: u32 = 0;

/** Call in on_configure; the host gives the same ids each time. */
export function defineMetrics(): void {
  passed = defineCounter(OK);
  memory.copy(name, OK.pointer, PREFIX_BYTES);
  for (let index = 0; index < REASONS.length; index++) {
    const reason = REASONS[index];
    const length = min<u32>(reason.word.length, <u32>NAME_BYTES - PREFIX_BYTES);
    memory.copy(name + PREFIX_BYTES, reason.word.pointer, length);
    span.set(name, PREFIX_BYTES + length);
    reason.metric = defineCounter(span);
  }
}

export function countPassed(): void {
  incrementMetric(passed, 1);
}

export function countRefused(reason: Reason): void {
  // Before the first configuration there are no counters.
  if (reason.metric !== 0) incrementMetric(reason.metric, 1);
}
