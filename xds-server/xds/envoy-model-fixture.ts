import type { Resource } from "../snapshot/resource.js";
import {
  CLUSTER_TYPE,
  ENDPOINT_TYPE,
  EXTENSION_TYPE,
  LISTENER_TYPE,
  type ResourceType,
  ROUTE_TYPE,
  SCOPE_TYPE,
  SECRET_TYPE,
  WILDCARD_TYPES,
} from "../snapshot/resource-types.js";
import type { Snapshot } from "../snapshot/snapshot.js";
import type { AskedNames, DiscoveryAsk, Holdings, Protocol } from "./discovery-ask.js";
import { COUNTING } from "./hand-driven-envoy-fixture.js";
import { NodeRecord, REMOVED } from "./node-record.js";
import { RecentStates } from "./recent-states.js";
import { type Outgoing, StreamSession } from "./stream-session.js";
import type { Item } from "./type-state.js";

/** In which Envoy asks for its types anew on a new stream. */
const RECONNECT_ORDER = [
  CLUSTER_TYPE,
  ENDPOINT_TYPE,
  LISTENER_TYPE,
  SCOPE_TYPE,
  EXTENSION_TYPE,
  SECRET_TYPE,
  ROUTE_TYPE,
] as const;

type Held = ReadonlyMap<string, Resource>;

/**
 * An honest Envoy on paper: it subscribes, warms and acknowledges as Envoy 1.40 was seen to, at moments that the test
 * picks, and notes whenever a response would have hurt traffic.
 */
export class EnvoyModel {
  session: StreamSession;
  /** What would have failed calls, in words. */
  readonly harm: string[] = [];
  readonly #held = new Map<ResourceType, Map<string, Resource>>();
  readonly #node = new NodeRecord("model");
  readonly #names = new Set<string>();
  readonly #toEnvoy: Outgoing[] = [];
  readonly #toServer: DiscoveryAsk[] = [];
  readonly #protocol: Protocol;
  readonly #recent = new RecentStates();
  /** Nonce and version of the response of each type that was read last. */
  readonly #nonces = new Map<string, string>();
  readonly #versions = new Map<string, string>();
  /** A cluster response is acknowledged when the endpoints of all its clusters have come. */
  #warming: { readonly response: Outgoing; readonly cold: Set<string> } | undefined;
  readonly #modelsOfGate: (version: string) => readonly string[];

  /** @param modelsOfGate models that a version of the gate's configuration lets pass */
  constructor(protocol: Protocol, modelsOfGate: (version: string) => readonly string[]) {
    this.#protocol = protocol;
    this.#modelsOfGate = modelsOfGate;
    this.session = this.#newSession();
    for (const type of [CLUSTER_TYPE, LISTENER_TYPE, SCOPE_TYPE] as const) this.#ask(type, []);
    this.#ask(EXTENSION_TYPE, ["gate"]);
  }

  /** A newer state for it. */
  publish(snapshot: Snapshot): void {
    this.#recent.remember(snapshot);
    this.session.setTarget(snapshot, 0);
    this.#checkMemory();
  }

  /** The stream breaks and begins anew: what was under way is lost, and all that is held and asked for is named again. */
  reconnect(): void {
    this.#toEnvoy.length = 0;
    this.#toServer.length = 0;
    // Its clusters stay cold until their endpoints come; the acknowledgement is gone with the stream.
    this.#warming = undefined;
    this.session = this.#newSession();
    this.#nonces.clear();
    for (const typeUrl of RECONNECT_ORDER) {
      const names = this.#namesOf(typeUrl);
      if (names.length === 0 && !WILDCARD_TYPES.has(typeUrl)) continue;
      const versions = [...this.#mapOf(typeUrl)].map(([name, { version }]) => [name, version]);
      const holds: Holdings = { kind: "resources", versions: Object.fromEntries(versions) };
      this.#say(typeUrl, { kind: "change", subscribe: names, unsubscribe: [] }, holds);
    }
  }

  #newSession(): StreamSession {
    const recall = this.#recent.recall.bind(this.#recent);
    return new StreamSession(
      this.#node,
      { protocol: this.#protocol, isAlone: false, knowsLimits: false, recall, compose: COUNTING },
      {
        write: (outgoing) => this.#toEnvoy.push(outgoing),
        accepted: () => undefined,
        refused: () => undefined,
        waitExpired: (type) => this.harm.push(`a wait of ${type} expired`),
      },
    );
  }

  /** Lets one thing happen on one side, as `choice` says; false when nothing is left to happen. */
  step(choice: number): boolean {
    const atEnvoy = this.#toEnvoy.length > 0;
    const atServer = this.#toServer.length > 0;
    if (!atEnvoy && !atServer) return false;
    if (atEnvoy && (!atServer || choice % 2 === 0)) this.#receive(this.#toEnvoy.shift() as Outgoing);
    else this.session.request(this.#toServer.shift() as DiscoveryAsk, 0);
    this.#checkMemory();
    return true;
  }

  /** What the session remembers of each name must be what a look at every name finds. */
  #checkMemory(): void {
    const misjudged = this.session.misjudgedTypes();
    if (misjudged.length > 0) throw new Error(`wrong names are taken for pending: ${misjudged.join(", ")}`);
  }

  held(type: ResourceType): Held {
    return this.#mapOf(type);
  }

  /** What differs from a snapshot; empty when Envoy holds just that. */
  differences(snapshot: Snapshot): string[] {
    const differences: string[] = [];
    for (const type of RECONNECT_ORDER) {
      for (const [name, { version }] of snapshot.byType[type]) {
        if (this.held(type).get(name)?.version !== version) differences.push(`${name} is missing or old`);
      }
      for (const name of this.held(type).keys()) {
        if (!snapshot.byType[type].has(name)) differences.push(`${name} is left over`);
      }
    }
    return differences;
  }

  #mapOf(type: ResourceType): Map<string, Resource> {
    const map = this.#held.get(type) ?? new Map<string, Resource>();
    this.#held.set(type, map);
    return map;
  }

  #ask(typeUrl: ResourceType, subscribe: readonly string[], unsubscribe: readonly string[] = []): void {
    if (subscribe.length === 0 && unsubscribe.length === 0 && !WILDCARD_TYPES.has(typeUrl)) return;
    for (const name of subscribe) this.#names.add(`${typeUrl} ${name}`);
    for (const name of unsubscribe) this.#names.delete(`${typeUrl} ${name}`);
    this.#say(typeUrl, { kind: "change", subscribe, unsubscribe });
  }

  #namesOf(typeUrl: string): string[] {
    const keys = [...this.#names].filter((key) => key.startsWith(`${typeUrl} `));
    return keys.map((key) => key.slice(typeUrl.length + 1));
  }

  /** @param change what delta says; state of the world repeats all names, and the version it holds */
  #say(typeUrl: string, change: AskedNames, holds: Holdings = { kind: "resources", versions: {} }): void {
    const isDelta = this.#protocol === "delta";
    this.#toServer.push({
      typeUrl,
      nodeId: "",
      // Delta answers a response once; state of the world names the last one in every request.
      responseNonce: isDelta ? "" : (this.#nonces.get(typeUrl) ?? ""),
      refusal: undefined,
      names: isDelta ? change : { kind: "all", names: this.#namesOf(typeUrl) },
      holds: isDelta ? holds : { kind: "type", version: this.#versions.get(typeUrl) ?? "" },
    });
  }

  #acknowledge({ typeUrl, nonce }: Outgoing): void {
    this.#say(typeUrl, { kind: "change", subscribe: [], unsubscribe: [] });
    const last = this.#toServer.at(-1);
    if (last !== undefined) this.#toServer[this.#toServer.length - 1] = { ...last, responseNonce: nonce };
  }

  /** What a response changes: of a full state, what differs from what is held. */
  #changesOf({ typeUrl, items, contents }: Outgoing): readonly Item[] {
    if (this.#protocol === "delta" || !WILDCARD_TYPES.has(typeUrl)) return items;
    const held = this.#mapOf(typeUrl);
    const names = new Set(contents.map(({ name }) => name));
    const changed = contents.filter(({ name, version }) => held.get(name)?.version !== version);
    const gone = [...held.keys()].filter((name) => !names.has(name));
    return [
      ...changed.map((resource) => ({ name: resource.name, version: resource.version, resource })),
      ...gone.map((name) => ({ name, version: REMOVED, resource: undefined })),
    ];
  }

  #receive(response: Outgoing): void {
    const { typeUrl } = response;
    // Also of clusters that are still cold: Envoy holds back the acknowledgement, and names the version on a new stream.
    this.#nonces.set(typeUrl, response.nonce);
    this.#versions.set(typeUrl, response.systemVersion);
    const items = this.#changesOf(response);
    const held = this.#mapOf(typeUrl);
    const added: string[] = [];
    const removed: string[] = [];
    for (const { name, version, resource } of items) {
      // What nobody asks for any more is read and dropped.
      if (!WILDCARD_TYPES.has(typeUrl) && !this.#names.has(`${typeUrl} ${name}`)) continue;
      if (version === REMOVED || resource === undefined) {
        this.#judgeRemoval(typeUrl, name);
        if (held.delete(name)) removed.push(name);
      } else {
        this.#judge(typeUrl, resource);
        if (!held.has(name)) added.push(name);
        held.set(name, resource);
      }
    }
    // Each parent asks for its children as soon as it is there, before it is acknowledged.
    if (typeUrl === CLUSTER_TYPE) {
      const cold = new Set(items.filter(({ version }) => version !== REMOVED).map(({ name }) => name));
      this.#ask(ENDPOINT_TYPE, added, removed);
      for (const name of removed) this.#mapOf(ENDPOINT_TYPE).delete(name);
      this.#warming = { response, cold };
      this.#warmed();
      return;
    }
    if (typeUrl === SCOPE_TYPE) {
      this.#ask(ROUTE_TYPE, added.map(tableOf), removed.map(tableOf));
      for (const name of removed) this.#mapOf(ROUTE_TYPE).delete(tableOf(name));
    }
    if (typeUrl === LISTENER_TYPE) this.#askForSecrets();
    this.#acknowledge(response);
    if (typeUrl === ENDPOINT_TYPE) {
      for (const { name } of items) this.#warming?.cold.delete(name);
      this.#warmed();
    }
  }

  /** Those that its listeners name; what no listener names any more is dropped without a word from the server. */
  #askForSecrets(): void {
    const wanted = new Set([...this.held(LISTENER_TYPE).values()].flatMap(({ needs }) => needs));
    const known = this.#namesOf(SECRET_TYPE);
    const dropped = known.filter((name) => !wanted.has(name));
    const added = [...wanted].filter((name) => !known.includes(name));
    this.#ask(SECRET_TYPE, added, dropped);
    for (const name of dropped) this.#mapOf(SECRET_TYPE).delete(name);
  }

  #warmed(): void {
    if (this.#warming === undefined || this.#warming.cold.size > 0) return;
    this.#acknowledge(this.#warming.response);
    this.#warming = undefined;
  }

  #judge(typeUrl: ResourceType, resource: Resource): void {
    if (typeUrl === ROUTE_TYPE) {
      for (const cluster of resource.needs) {
        if (!this.held(CLUSTER_TYPE).has(cluster)) this.harm.push(`${resource.name} came before ${cluster}`);
        if (this.#warming?.cold.has(cluster) && this.held(ENDPOINT_TYPE).get(cluster) === undefined) {
          this.harm.push(`${resource.name} came while ${cluster} had no endpoints`);
        }
      }
    }
    if (
      typeUrl === ENDPOINT_TYPE &&
      resource.isEmpty &&
      this.held(ENDPOINT_TYPE).get(resource.name)?.isEmpty === false
    ) {
      this.#judgeUnused(resource.name, "lost its endpoints");
    }
    if (typeUrl === EXTENSION_TYPE && this.held(EXTENSION_TYPE).size > 0) {
      for (const model of this.#modelsOfGate(resource.version)) {
        if (!this.held(ROUTE_TYPE).has(tableOf(model))) this.harm.push(`the gate let ${model} pass before its routes`);
      }
    }
  }

  #judgeRemoval(typeUrl: ResourceType, name: string): void {
    if (typeUrl === CLUSTER_TYPE) this.#judgeUnused(name, "was removed");
    if (typeUrl === SECRET_TYPE && this.held(SECRET_TYPE).has(name)) {
      for (const listener of this.held(LISTENER_TYPE).values()) {
        if (listener.needs.includes(name)) this.harm.push(`${name} was removed while ${listener.name} uses it`);
      }
    }
    if (typeUrl !== SCOPE_TYPE) return;
    const gate = this.held(EXTENSION_TYPE).get("gate");
    if (gate !== undefined && this.#modelsOfGate(gate.version).includes(name)) {
      this.harm.push(`${name} was removed while the gate lets it pass`);
    }
  }

  #judgeUnused(cluster: string, what: string): void {
    for (const table of this.held(ROUTE_TYPE).values()) {
      if (table.needs.includes(cluster)) this.harm.push(`${cluster} ${what} while ${table.name} leads to it`);
    }
  }
}

function tableOf(scope: string): string {
  return `routes/${scope}`;
}
