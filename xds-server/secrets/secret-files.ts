import { isDeepStrictEqual } from "node:util";
import type { GatewayPlan } from "../plan/mesh-plan.js";
import type { Clock } from "../platform/clock.js";
import type { Finding } from "../registry/state.js";
import type { FileAccess } from "./file-access.js";
import type { SecretPair } from "./secret-pair.js";
import { WatchedPair } from "./watched-pair.js";

/** How often the files are looked at; a look reads nothing of a file that did not change. */
const LOOK_EVERY_MS = 2_000;

/** What the files of all gateways hold. */
export interface ProvidedSecrets {
  /** The pair in force by name of the gateway; without one its TLS listener has to be left out. */
  readonly pairs: ReadonlyMap<string, SecretPair>;
  readonly findings: readonly Finding[];
}

/** Where certificates come from. */
export interface SecretSource {
  /** Reads what is not known yet, and watches just the files of these gateways from now on. */
  provide(gateways: readonly GatewayPlan[]): ProvidedSecrets;
}

export interface SecretFilesDeps {
  readonly clock: Clock;
  readonly files: FileAccess;
  readonly logger: { info(fields: object, message: string): void };
  /** Another pair came into force, or there is something new to tell: `provide` has it. */
  readonly onChange: () => void;
}

/**
 * Certificates and private keys of gateways, read from files and kept up to date with them. A pair is replaced as a whole
 * and only by one that was checked; whatever the files come to hold, the last good pair stays.
 */
export class SecretFiles implements SecretSource {
  readonly #deps: SecretFilesDeps;
  readonly #watched = new Map<string, WatchedPair>();
  #provided: ProvidedSecrets = { pairs: new Map(), findings: [] };
  #cancelTimer: (() => void) | undefined;
  #isClosed = false;

  constructor(deps: SecretFilesDeps) {
    this.#deps = deps;
  }

  provide(gateways: readonly GatewayPlan[]): ProvidedSecrets {
    const wallMs = this.#deps.clock.wallMs();
    const names = new Set<string>();
    for (const { name, tls } of gateways) {
      if (tls === undefined) continue;
      names.add(name);
      const watched = this.#watched.get(name);
      if (watched !== undefined) {
        watched.follow(tls, wallMs);
        continue;
      }
      const added = new WatchedPair(name, tls, this.#deps.files);
      this.#watched.set(name, added);
      added.look(wallMs);
    }
    for (const name of this.#watched.keys()) if (!names.has(name)) this.#watched.delete(name);
    this.#note(wallMs);
    this.#arm();
    return this.#provided;
  }

  /** Looks at no file any more on its own; what was read is still provided. */
  close(): void {
    this.#isClosed = true;
    this.#arm();
  }

  #look(): void {
    const wallMs = this.#deps.clock.wallMs();
    for (const watched of this.#watched.values()) watched.look(wallMs);
    if (this.#note(wallMs)) this.#deps.onChange();
  }

  /** @returns true when there is something new */
  #note(wallMs: number): boolean {
    const pairs = new Map<string, SecretPair>();
    for (const [name, { inForce }] of this.#watched) if (inForce !== undefined) pairs.set(name, inForce);
    const findings = [...this.#watched.values()].flatMap((watched) => watched.findings(wallMs));
    const before = this.#provided;
    const isSame =
      pairs.size === before.pairs.size && [...pairs].every(([name, pair]) => before.pairs.get(name) === pair);
    if (isSame && isDeepStrictEqual(findings, before.findings)) return false;
    this.#provided = { pairs: isSame ? before.pairs : pairs, findings };
    for (const [gateway, pair] of pairs) {
      if (before.pairs.get(gateway) === pair) continue;
      const { serial, validToMs } = pair;
      const validTo = new Date(validToMs).toISOString();
      this.#deps.logger.info({ gateway, serial, validTo }, "certificate in force");
    }
    return true;
  }

  #arm(): void {
    if (this.#watched.size === 0 || this.#isClosed) {
      this.#cancelTimer?.();
      this.#cancelTimer = undefined;
    } else if (this.#cancelTimer === undefined) {
      this.#cancelTimer = this.#deps.clock.schedule(LOOK_EVERY_MS, () => {
        this.#cancelTimer = undefined;
        this.#look();
        this.#arm();
      });
    }
  }
}
