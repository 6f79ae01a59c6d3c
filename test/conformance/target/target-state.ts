import { status } from "@grpc/grpc-js";
import { AdapterRefusal } from "./adapter-refusal.js";
import { forcedSnapshot, type Snapshot, type VersionedType } from "./forced-snapshot.js";
import { RESOURCE_KINDS, type ResourceKind } from "./resource-kinds.js";

/** A resource as the suite sends it. */
export interface GivenResource {
  readonly typeUrl: string;
  readonly value: Uint8Array;
}

/** What one call of the suite is about. */
export interface ResourceChange {
  readonly node: string;
  readonly typeUrl: string;
  readonly name: string;
  readonly version: string;
}

interface Entry {
  readonly content: Uint8Array;
  readonly version: string;
  /** How often it was updated. */
  readonly revision: number;
}

interface HeldType {
  readonly version: string;
  readonly entries: ReadonlyMap<string, Entry>;
}

/**
 * The resources of the target, with the versions that the suite chose. The server under test serves one state to every
 * node, so there is one, and the node that it was set for is the only one that may change it.
 */
export class TargetState {
  /** Empty while nothing is set. */
  #node = "";
  #types: ReadonlyMap<string, HeldType> = new Map();

  /** @throws AdapterRefusal; then nothing has changed */
  replace(node: string, version: string, resources: readonly GivenResource[]): void {
    requireText("node", node);
    requireText("version", version);
    const types = new Map<string, { version: string; entries: Map<string, Entry> }>();
    for (const resource of resources) {
      const { typeUrl } = resource;
      const { name, content } = read(resource);
      const entries = types.get(typeUrl)?.entries ?? new Map<string, Entry>();
      types.set(typeUrl, { version, entries });
      if (entries.has(name)) refuse(status.INVALID_ARGUMENT, `${typeUrl} ${name} is given twice`);
      entries.set(name, { content, version, revision: 0 });
    }
    this.#types = types;
    this.#node = node;
  }

  /** Another content under another version. @throws AdapterRefusal; then nothing has changed */
  update(change: ResourceChange): void {
    const { typeUrl, name, version } = change;
    const kind = this.#kindFor(change);
    requireText("version", version);
    const entry = this.#entry(change);
    // Clients are told of a resource when its version differs, so this one would stay unseen.
    if (entry.version === version) refuse(status.INVALID_ARGUMENT, `${name} has version ${version} already`);
    const revision = entry.revision + 1;
    this.#put(typeUrl, version, name, { content: kind.revise(entry.content, revision), version, revision });
  }

  /** @throws AdapterRefusal; then nothing has changed */
  add(change: ResourceChange): void {
    const { typeUrl, name, version } = change;
    const kind = this.#kindFor(change);
    requireText("version", version);
    requireText("resource name", name);
    if (this.#types.get(typeUrl)?.entries.has(name)) refuse(status.ALREADY_EXISTS, `${typeUrl} ${name} exists`);
    this.#put(typeUrl, version, name, { content: kind.make(name), version, revision: 0 });
  }

  /** Without a version the type keeps its own. @throws AdapterRefusal; then nothing has changed */
  remove(change: ResourceChange): void {
    const { typeUrl, name, version } = change;
    this.#kindFor(change);
    this.#entry(change);
    this.#put(typeUrl, version, name, undefined);
  }

  /** Takes everything away, if it is this node's. @returns whether there was anything */
  clear(node: string): boolean {
    if (node === "" || node !== this.#node) return false;
    this.#node = "";
    this.#types = new Map();
    return true;
  }

  snapshot(): Snapshot {
    const types = [...this.#types].map(([typeUrl, { version, entries }]): [string, VersionedType] => [
      typeUrl,
      { version, resources: entries },
    ]);
    return forcedSnapshot(new Map(types));
  }

  #kindFor({ node, typeUrl }: ResourceChange): ResourceKind {
    if (this.#node === "" || node !== this.#node) {
      refuse(status.NOT_FOUND, `there is no state for node "${node}"; call SetState first`);
    }
    return kindOf(typeUrl);
  }

  #entry({ typeUrl, name }: ResourceChange): Entry {
    return this.#types.get(typeUrl)?.entries.get(name) ?? refuse(status.NOT_FOUND, `there is no ${typeUrl} "${name}"`);
  }

  #put(typeUrl: string, version: string, name: string, entry: Entry | undefined): void {
    const held = this.#types.get(typeUrl);
    const entries = new Map(held?.entries);
    if (entry === undefined) entries.delete(name);
    else entries.set(name, entry);
    this.#types = new Map(this.#types).set(typeUrl, { version: version || (held?.version ?? ""), entries });
  }
}

function read({ typeUrl, value }: GivenResource): { name: string; content: Uint8Array } {
  const kind = kindOf(typeUrl);
  let resource: { name: string; content: Uint8Array };
  try {
    resource = kind.read(value);
  } catch (error) {
    refuse(status.INVALID_ARGUMENT, `a resource is no ${typeUrl}: ${error instanceof Error ? error.message : error}`);
  }
  requireText(`name of a ${typeUrl}`, resource.name);
  return resource;
}

function kindOf(typeUrl: string): ResourceKind {
  const known = [...RESOURCE_KINDS.keys()].join(", ");
  return RESOURCE_KINDS.get(typeUrl) ?? refuse(status.INVALID_ARGUMENT, `type "${typeUrl}" is none of ${known}`);
}

function requireText(what: string, text: string): void {
  if (text === "") refuse(status.INVALID_ARGUMENT, `the ${what} is missing`);
}

function refuse(code: status, message: string): never {
  throw new AdapterRefusal(code, message);
}
