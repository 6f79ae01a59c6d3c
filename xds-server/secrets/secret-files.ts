import { isDeepStrictEqual } from "node:util";
import type { GatewayPlan } from "../plan/mesh-plan.js";
import type { Clock } from "../platform/clock.js";
import type { Finding } from "../registry/state.js";
import type { FileAccess } from "./file-access.js";
import { type MeshIdentityInForce, WatchedMeshIdentity } from "./mesh-identity.js";
import type { SecretPair } from "./secret-pair.js";
import { WatchedPair } from "./watched-pair.js";

/** How often the files are looked at; a look reads nothing of a file that did not change. */
const LOOK_EVERY_MS = 2_000;

/** What the files of all gateways hold. */
export interface ProvidedSecrets {
  /** The pair in force by name of the gateway; without one its TLS listener has to be left out. */
  readonly pairs: ReadonlyMap<string, SecretPair>;
  /** The mesh identity in force by name of the gateway; without one it reaches no batcher that speaks TLS. */
  readonly identities: ReadonlyMap<string, MeshIdentityInForce>;
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
  readonly #identities = new Map<string, WatchedMeshIdentity>();
  #provided: ProvidedSecrets = { pairs: new Map(), identities: new Map(), findings: [] };
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
    this.#followIdentities(gateways);
    this.#note(wallMs);
    this.#arm();
    return this.#provided;
  }

  /** Looks at no file any more on its own; what was read is still provided. */
  close(): void {
    this.#isClosed = true;
    this.#arm();
  }

  #followIdentities(gateways: readonly GatewayPlan[]): void {
    const { clock, logger } = this.#deps;
    const wanted = new Map(gateways.flatMap(({ name, mesh }) => (mesh === undefined ? [] : [[name, mesh] as const])));
    for (const [name, files] of wanted) {
      if (isDeepStrictEqual(this.#identities.get(name)?.files, files)) continue;
      const deps = { gateway: name, wallMs: () => clock.wallMs(), logger };
      this.#identities.set(name, new WatchedMeshIdentity(files, deps));
    }
    for (const name of this.#identities.keys()) if (!wanted.has(name)) this.#identities.delete(name);
  }

  #look(): void {
    const wallMs = this.#deps.clock.wallMs();
    for (const watched of this.#watched.values()) watched.look(wallMs);
    for (const identity of this.#identities.values()) identity.look();
    if (this.#note(wallMs)) this.#deps.onChange();
  }

  /** @returns true when there is something new */
  #note(wallMs: number): boolean {
    const pairs = new Map<string, SecretPair>();
    for (const [name, { inForce }] of this.#watched) if (inForce !== undefined) pairs.set(name, inForce);
    const identities = new Map<string, MeshIdentityInForce>();
    for (const [name, { inForce }] of this.#identities) if (inForce !== undefined) identities.set(name, inForce);
    const findings = [
      ...[...this.#watched.values()].flatMap((watched) => watched.findings(wallMs)),
      ...[...this.#identities.values()].flatMap((identity) => identity.findings()),
    ];
    const before = this.#provided;
    const now = { pairs: sameOr(before.pairs, pairs), identities: sameOr(before.identities, identities), findings };
    const isSame = now.pairs === before.pairs && now.identities === before.identities;
    if (isSame && isDeepStrictEqual(findings, before.findings)) return false;
    this.#provided = now;
    for (const [gateway, pair] of pairs) {
      if (before.pairs.get(gateway) === pair) continue;
      const { serial, validToMs } = pair;
      const validTo = new Date(validToMs).toISOString();
      this.#deps.logger.info({ gateway, serial, validTo }, "certificate in force");
    }
    return true;
  }

  #arm(): void {
    if ((this.#watched.size === 0 && this.#identities.size === 0) || this.#isClosed) {
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

/** The map before when this one holds the same objects. */
function sameOr<V>(before: ReadonlyMap<string, V>, now: ReadonlyMap<string, V>): ReadonlyMap<string, V> {
  const isSame = now.size === before.size && [...now].every(([name, value]) => before.get(name) === value);
  return isSame ? before : now;
}
