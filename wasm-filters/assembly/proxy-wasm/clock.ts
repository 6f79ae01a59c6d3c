import { out } from "./arena";
import { clock_time_get } from "./host-functions";

const MONOTONIC: u32 = 1;

/** Nanoseconds of a clock that never steps; only differences mean something. About 70 ns. */
export function monotonicNs(): u64 {
  store<u64>(out, 0);
  clock_time_get(MONOTONIC, 1, out);
  return load<u64>(out);
}
