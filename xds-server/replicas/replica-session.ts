import type { ConnectResponse, Hello, Load, State } from "@servemesh/proto/gen/mesh/servemesh/control/v1/replica.js";
import type { Model, ModelVersion } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import type { Clock } from "../platform/clock.js";
import { formatKey, type RecordKey } from "../registry/keys.js";
import { formatRecord, recordProblems } from "../registry/records.js";
import type { Registry } from "../registry/registry.js";
import { referenceOf } from "../registry/registry-view.js";
import type { Revisioned } from "../registry/state.js";
import type { Lease, Operation } from "../registry/store.js";
import { replicaRecord } from "./replica-record.js";

/** Records of a control plane that ended count as unconfirmed for this long (DESIGN §4). */
export const UNCONFIRMED_MS = 30_000;
/** A batcher tells its state right after Hello. Without it, a record from before is trusted this long. */
const STATE_PATIENCE_MS = 5_000;

export interface ReplicaSessionDeps {
  readonly registry: Registry;
  readonly clock: Clock;
  /** @returns false when the batcher does not read, so that nothing more is sent until `sync` is called again */
  readonly send: (response: ConnectResponse) => boolean;
  /** Ends the stream: what the batcher told cannot be taken, or the store does not take it. */
  readonly refuse: (reason: "bad_input" | "store_failure", message: string) => void;
}

/**
 * One connected batcher: its record in the registry, under a lease of its own, and the assignment that it was sent. The
 * record follows the last state that was told; writes run one at a time, and only the newest state is written.
 */
export class ReplicaSession {
  readonly hello: Hello;
  readonly #deps: ReplicaSessionDeps;
  readonly #key: Extract<RecordKey, { kind: "replica" }>;
  readonly #storeKey: string;
  readonly #reference: string;
  /** The same batcher's stream from before. Its record is taken over before its lease ends, so that the endpoint stays. */
  #predecessor: ReplicaSession | undefined;
  #lease: Lease | undefined;
  #told: State | undefined;
  #load: Load | undefined;
  /** Revisions of the records that were sent. */
  #assigned: { readonly version: bigint; readonly model: bigint } | undefined;
  #version: ModelVersion | undefined;
  #hasSynced = false;
  #written = "";
  #isPatient: boolean;
  readonly #cancelPatience: () => void;
  #isOver = false;
  #isWriting = false;
  #writing: Promise<void> = Promise.resolve();

  constructor(hello: Hello, predecessor: ReplicaSession | undefined, deps: ReplicaSessionDeps) {
    this.hello = hello;
    this.#deps = deps;
    this.#predecessor = predecessor;
    this.#key = { kind: "replica", model: hello.model, version: hello.version, id: hello.replicaId };
    this.#storeKey = formatKey(this.#key);
    this.#reference = referenceOf(hello);
    this.#isPatient = this.#ownRecordExists();
    this.#cancelPatience = deps.clock.schedule(STATE_PATIENCE_MS, () => {
      this.#isPatient = false;
      this.#startWriting();
    });
  }

  /** The latest load that was told; undefined before the first. Never stored. */
  get load(): Load | undefined {
    return this.#load;
  }

  /** The latest state that was told; undefined before the first. */
  get told(): State | undefined {
    return this.#told;
  }

  tellLoad(load: Load): void {
    this.#load = load;
  }

  tellState(state: State): void {
    this.#told = state;
    this.#cancelPatience();
    this.#startWriting();
  }

  /** After the beginning, after a change of the registry, and when the batcher reads again. */
  sync(): void {
    if (this.#isOver) return;
    const { state } = this.#deps.registry;
    const version = state.versions.get(this.#reference);
    const model = state.models.get(this.hello.model);
    this.#assign(version, model);
    // Every session looks at every change, so what does not concern it must cost next to nothing.
    if (this.#hasSynced && version?.value === this.#version) return;
    this.#hasSynced = true;
    this.#version = version?.value;
    this.#startWriting();
  }

  /** The stream is over: the record goes at once. Resolves when it is gone. */
  async end(): Promise<void> {
    await this.stop();
    await this.#releasePredecessor();
    await this.#lease?.revoke();
  }

  /** Writes nothing more. The record stays until its lease ends. */
  async stop(): Promise<void> {
    this.#isOver = true;
    this.#cancelPatience();
    await this.#writing;
  }

  #assign(version: Revisioned<ModelVersion> | undefined, model: Revisioned<Model> | undefined): void {
    if (version === undefined) return;
    const modelRevision = model?.modRevision ?? 0n;
    if (this.#assigned?.version === version.modRevision && this.#assigned.model === modelRevision) return;
    const value = { version: version.value, model: model?.value };
    if (!this.#deps.send({ message: { $case: "assignment", value } })) return;
    this.#assigned = { version: version.modRevision, model: modelRevision };
  }

  #startWriting(): void {
    if (!this.#isWriting && !this.#isOver) this.#writing = this.#write();
  }

  async #write(): Promise<void> {
    this.#isWriting = true;
    try {
      for (let text = this.#wanted(); text !== undefined && text !== this.#written; text = this.#wanted()) {
        this.#lease ??= await this.#grant();
        await this.#predecessor?.stop();
        if (this.#isOver) return;
        const put = { kind: "put", key: this.#storeKey, value: text, lease: this.#lease.id } as const;
        await this.#deps.registry.commit([], [...this.#staleRecords(), put]);
        this.#written = text;
        await this.#releasePredecessor();
      }
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      if (!this.#isOver) this.#deps.refuse("store_failure", `the replica's record cannot be written: ${problem}`);
    } finally {
      this.#isWriting = false;
    }
  }

  /** The text to store; undefined when there is nothing to write yet, or ever. */
  #wanted(): string | undefined {
    if (this.#isOver || (this.#told === undefined && this.#isPatient)) return undefined;
    const facts = { hello: this.hello, told: this.#told, version: this.#version };
    const record = { kind: "replica", value: replicaRecord(facts) } as const;
    const [problem] = recordProblems(this.#key, record);
    if (problem === undefined) return formatRecord(record);
    this.#deps.refuse("bad_input", `state: ${problem}`);
    return undefined;
  }

  async #grant(): Promise<Lease> {
    const lease = await this.#deps.registry.grantLease(UNCONFIRMED_MS);
    void lease.lost.then(() => {
      this.#lease = undefined;
      this.#written = "";
      this.#startWriting();
    });
    return lease;
  }

  /**
   * Records that this batcher makes void: its own under another version, and those of a process that had its address
   * before. Two connected batchers never get here with one id or address.
   */
  #staleRecords(): Operation[] {
    const { address, replicaId } = this.hello;
    return this.#deps.registry
      .replicaKeys((other) => other.id === replicaId || other.address === address)
      .filter((key) => key !== this.#storeKey)
      .map((key) => ({ kind: "delete", key }));
  }

  #ownRecordExists(): boolean {
    const { replicas } = this.#deps.registry.state;
    const { model, version, replicaId, address } = this.hello;
    const known = replicas.get(replicaId)?.value;
    return known?.model === model && known.version === version && known.address === address;
  }

  async #releasePredecessor(): Promise<void> {
    const predecessor = this.#predecessor;
    this.#predecessor = undefined;
    await predecessor?.end();
  }
}
