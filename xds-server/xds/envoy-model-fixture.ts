import { DeltaDiscoveryRequest } from "@servemesh/proto/gen/envoy/envoy/service/discovery/v3/discovery.js";
import type { Resource } from "../snapshot/resource.js";
import {
  CLUSTER_TYPE,
  ENDPOINT_TYPE,
  EXTENSION_TYPE,
  LISTENER_TYPE,
  type ResourceType,
  ROUTE_TYPE,
  SCOPE_TYPE,
  WILDCARD_TYPES,
} from "../snapshot/resource-types.js";
import type { Snapshot } from "../snapshot/snapshot.js";
import { DeltaSession, type Outgoing } from "./delta-session.js";
import { NodeRecord, REMOVED } from "./node-record.js";

type Held = ReadonlyMap<string, Resource>;

/**
 * An honest Envoy on paper: it subscribes, warms and acknowledges as Envoy 1.40 was seen to, at moments that the test
 * picks, and notes whenever a response would have hurt traffic.
 */
export class EnvoyModel {
  session: DeltaSession;
  /** What would have failed calls, in words. */
  readonly harm: string[] = [];
  readonly #held = new Map<ResourceType, Map<string, Resource>>();
  readonly #node = new NodeRecord("model");
  readonly #names = new Set<string>();
  readonly #toEnvoy: Outgoing[] = [];
  readonly #toServer: DeltaDiscoveryRequest[] = [];
  /** A cluster response is acknowledged when the endpoints of all its clusters have come. */
  #warming: { readonly nonce: string; readonly cold: Set<string> } | undefined;
  readonly #modelsOfGate: (version: string) => readonly string[];

  /** @param modelsOfGate models that a version of the gate's configuration lets pass */
  constructor(modelsOfGate: (version: string) => readonly string[]) {
    this.#modelsOfGate = modelsOfGate;
    this.session = this.#newSession();
    for (const type of [CLUSTER_TYPE, LISTENER_TYPE, SCOPE_TYPE] as const) this.#ask(type, []);
    this.#ask(EXTENSION_TYPE, ["gate"]);
  }

  /** The stream breaks and begins anew: what was under way is lost, and all that is held and asked for is named again. */
  reconnect(): void {
    this.#toEnvoy.length = 0;
    this.#toServer.length = 0;
    // Its clusters stay cold until their endpoints come; the acknowledgement is gone with the stream.
    this.#warming = undefined;
    this.session = this.#newSession();
    const order = [CLUSTER_TYPE, ENDPOINT_TYPE, LISTENER_TYPE, SCOPE_TYPE, EXTENSION_TYPE, ROUTE_TYPE] as const;
    for (const typeUrl of order) {
      const names = [...this.#names].filter((key) => key.startsWith(`${typeUrl} `));
      const resourceNamesSubscribe = names.map((key) => key.slice(typeUrl.length + 1));
      if (resourceNamesSubscribe.length === 0 && !WILDCARD_TYPES.has(typeUrl)) continue;
      const versions = [...this.#mapOf(typeUrl)].map(([name, { version }]) => [name, version]);
      const initialResourceVersions = Object.fromEntries(versions);
      const request = { typeUrl, resourceNamesSubscribe, initialResourceVersions };
      this.#toServer.push(DeltaDiscoveryRequest.fromPartial(request));
    }
  }

  #newSession(): DeltaSession {
    return new DeltaSession(this.#node, {
      write: (outgoing) => this.#toEnvoy.push(outgoing),
      accepted: () => undefined,
      refused: () => undefined,
      waitExpired: (type) => this.harm.push(`a wait of ${type} expired`),
    });
  }

  /** Lets one thing happen on one side, as `choice` says; false when nothing is left to happen. */
  step(choice: number): boolean {
    const atEnvoy = this.#toEnvoy.length > 0;
    const atServer = this.#toServer.length > 0;
    if (!atEnvoy && !atServer) return false;
    if (atEnvoy && (!atServer || choice % 2 === 0)) this.#receive(this.#toEnvoy.shift() as Outgoing);
    else this.session.request(this.#toServer.shift() as DeltaDiscoveryRequest, 0);
    return true;
  }

  held(type: ResourceType): Held {
    return this.#mapOf(type);
  }

  /** What differs from a snapshot; empty when Envoy holds just that. */
  differences(snapshot: Snapshot): string[] {
    const differences: string[] = [];
    for (const type of [CLUSTER_TYPE, ENDPOINT_TYPE, SCOPE_TYPE, ROUTE_TYPE, EXTENSION_TYPE] as const) {
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
    const names = { resourceNamesSubscribe: [...subscribe], resourceNamesUnsubscribe: [...unsubscribe] };
    this.#toServer.push(DeltaDiscoveryRequest.fromPartial({ typeUrl, ...names }));
  }

  #acknowledge(typeUrl: string, responseNonce: string): void {
    this.#toServer.push(DeltaDiscoveryRequest.fromPartial({ typeUrl, responseNonce }));
  }

  #receive({ typeUrl, nonce, items }: Outgoing): void {
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
      this.#warming = { nonce, cold };
      this.#warmed();
      return;
    }
    if (typeUrl === SCOPE_TYPE) {
      this.#ask(ROUTE_TYPE, added.map(tableOf), removed.map(tableOf));
      for (const name of removed) this.#mapOf(ROUTE_TYPE).delete(tableOf(name));
    }
    this.#acknowledge(typeUrl, nonce);
    if (typeUrl === ENDPOINT_TYPE) {
      for (const { name } of items) this.#warming?.cold.delete(name);
      this.#warmed();
    }
  }

  #warmed(): void {
    if (this.#warming === undefined || this.#warming.cold.size > 0) return;
    this.#acknowledge(CLUSTER_TYPE, this.#warming.nonce);
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
