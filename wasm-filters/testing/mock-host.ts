import { Guest } from "./guest.js";
import { createHostFunctions } from "./host-functions.js";
import { HostState, type LogLine, type Scope, SharedState } from "./host-state.js";
import { MockStream } from "./mock-stream.js";

export interface MockHostOptions {
  /** Monotonic clock in ns; by default it steps by 1 µs at each reading, so that runs repeat exactly. */
  readonly clockNs?: () => bigint;
  /** 0 trace to 5 critical; what proxy_get_log_level says. Default: info. */
  readonly logLevel?: number;
  /** `allow_on_headers_stop_iteration` of Envoy's filter config; default true. */
  readonly allowHeaderStop?: boolean;
  /** Shared data and metrics, to run several VMs of one process. */
  readonly shared?: SharedState;
  /** What proxy_get_property gives, by path with dots. */
  readonly properties?: ReadonlyMap<string, Uint8Array>;
}

const INFO = 2;

/** One VM with a filter in it. See createMockHost. */
export class MockHost {
  readonly #state: HostState;
  readonly #guest: Guest;
  readonly #allowHeaderStop: boolean;
  #nextContextId = 1;
  #started = false;

  constructor(moduleBytes: Uint8Array, options: MockHostOptions) {
    let nowNs = 0n;
    const clockNs = options.clockNs ?? (() => (nowNs += 1000n));
    this.#state = new HostState(
      options.shared ?? new SharedState(),
      options.logLevel ?? INFO,
      clockNs,
      options.properties ?? new Map(),
    );
    this.#allowHeaderStop = options.allowHeaderStop ?? true;
    // The functions run only once the instance exists.
    const imports = createHostFunctions(this.#state, () => this.#guest);
    this.#guest = Guest.load(moduleBytes, imports);
    this.#call({ callback: "_initialize" });
  }

  /** Log lines of the module so far. */
  get logs(): readonly LogLine[] {
    return this.#state.logs;
  }

  /** Value of each metric by its name. */
  get metrics(): ReadonlyMap<string, bigint> {
    return new Map([...this.#state.shared.metrics].map(([name, metric]) => [name, metric.value]));
  }

  /** Size of the module's memory; it never shrinks. */
  get memoryBytes(): number {
    return this.#guest.memoryBytes;
  }

  /** Value of an exported global; only modules prepared by exportGlobals have any. */
  global(name: string): number {
    return this.#guest.global(name);
  }

  /** A copy of the module's memory from an address on. */
  memoryAt(address: number, bytes: number): Buffer {
    return this.#guest.read(address, bytes, "memory");
  }

  /** Period that the module asked for with proxy_set_tick_period_milliseconds; 0 for none. */
  get tickPeriodMs(): number {
    return this.#state.tickPeriodMs;
  }

  /**
   * Gives the module a configuration as Envoy does: with a new root context, in the same VM. False when the module refuses
   * it; Envoy then keeps the old filter.
   */
  configure(configuration: Uint8Array): boolean {
    const root = this.#nextContextId++;
    this.#call({ callback: "proxy_on_context_create" }, root, 0);
    if (!this.#started && this.#guest.has("proxy_on_vm_start")) {
      if (this.#call({ callback: "proxy_on_vm_start" }, root, 0) === 0) return false;
    }
    this.#started = true;
    return this.#call({ callback: "proxy_on_configure", configuration }, root, configuration.length) !== 0;
  }

  /** A new stream. */
  openStream(): MockStream {
    return new MockStream(this.#nextContextId++, this.#state, this.#guest, this.#allowHeaderStop);
  }

  /** Runs proxy_on_tick of the first root context. */
  tick(): void {
    this.#call({ callback: "proxy_on_tick" }, 1);
  }

  #call(scope: Scope, ...parameters: number[]): number {
    this.#state.scope = scope;
    try {
      return this.#guest.call(scope.callback, ...parameters);
    } finally {
      this.#state.scope = undefined;
    }
  }
}

/**
 * Loads a Proxy-Wasm filter into a strict host: what Envoy would punish with a crash, a hang or a quiet BadArgument throws
 * here (HostMisuseError), a trap throws a ModuleTrapError, and a module that Envoy could not load a ModuleLoadError.
 */
export function createMockHost(moduleBytes: Uint8Array, options: MockHostOptions = {}): MockHost {
  return new MockHost(moduleBytes, options);
}
