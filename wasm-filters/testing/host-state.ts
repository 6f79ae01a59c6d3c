import type { StreamState } from "./stream-state.js";

/** What VMs of one process share: create it once to run several hosts as workers. */
export class SharedState {
  readonly data = new Map<string, { value: Buffer; cas: number }>();
  readonly metrics = new Map<string, { id: number; type: number; value: bigint }>();
}

export interface LogLine {
  /** 0 trace to 5 critical. */
  readonly level: number;
  readonly text: string;
}

/** The callback that the module is in, which decides what it may do. */
export interface Scope {
  readonly callback: string;
  readonly stream?: StreamState;
  readonly configuration?: Uint8Array;
}

/** What the host functions work on. */
export class HostState {
  scope: Scope | undefined;
  readonly logs: LogLine[] = [];
  tickPeriodMs = 0;

  constructor(
    readonly shared: SharedState,
    readonly logLevel: number,
    readonly clockNs: () => bigint,
    readonly properties: ReadonlyMap<string, Uint8Array>,
  ) {}
}
