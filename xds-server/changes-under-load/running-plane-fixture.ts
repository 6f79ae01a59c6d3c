import { pino } from "pino";
import type { AdminClient } from "../admin/admin-client.js";
import type { ControlPlane } from "../control-plane.js";
import { ControlPlaneFixture } from "../control-plane-fixture.js";
import type { Clock } from "../platform/clock.js";
import { formatKey, REGISTRY_PREFIX } from "../registry/keys.js";
import { LmdbStore } from "../registry/lmdb-store.js";
import type { Store } from "../registry/store.js";

export interface MeshPorts {
  readonly ads: number;
  readonly http: number;
  readonly shop: number;
  readonly gatewayAdmin: number;
  readonly shopAdmin: number;
}

/** Told of each response that the control plane writes. */
export type ResponseListener = (response: {
  readonly node: string;
  readonly type: string;
  readonly names: readonly string[];
}) => void;

/** The control plane of the mesh, which may be stopped and started again. */
export class RunningPlane {
  readonly #fixture = new ControlPlaneFixture();
  readonly #onResponse: ResponseListener;
  #running: { readonly plane: ControlPlane; readonly admin: AdminClient; readonly store: Store } | undefined;

  constructor(
    readonly ports: MeshPorts,
    onResponse: ResponseListener,
  ) {
    this.#onResponse = onResponse;
  }

  get running(): ControlPlane {
    return this.#parts.plane;
  }

  get admin(): AdminClient {
    return this.#parts.admin;
  }

  get #parts() {
    if (this.#running === undefined) throw new Error("the control plane is stopped");
    return this.#running;
  }

  nodesOf(nodeIds: ReadonlySet<string>): number {
    return this.running.nodes().filter(({ nodeId }) => nodeIds.has(nodeId)).length;
  }

  async start(): Promise<void> {
    let store: Store | undefined;
    const openStore = (folder: string, clock: Clock): Store => {
      store = new LmdbStore(folder, clock);
      return store;
    };
    const logger = pino({ level: "info" }, { write: (line) => this.#read(line) });
    const ads = { host: "127.0.0.1", port: this.ports.ads };
    const plane = await this.#fixture.start({ ads }, { logger, openStore });
    if (store === undefined) throw new Error("the control plane opened no store");
    this.#running = { plane, store, admin: this.#fixture.admin(plane) };
  }

  async stop(): Promise<void> {
    const { plane, admin } = this.#parts;
    this.#running = undefined;
    admin.close();
    await plane.close();
  }

  async deleteModel(name: string): Promise<void> {
    const { store } = this.#parts;
    const folders = ["versions", "stages", "aliases"].map((kind) => `${REGISTRY_PREFIX}${kind}/${name}/`);
    const listings = await Promise.all(folders.map((folder) => store.list(folder)));
    const keys = listings.flatMap(({ items }) => items.map(({ key }) => key));
    const deletes = [formatKey({ kind: "model", model: name }), ...keys].map(
      (key) => ({ kind: "delete", key }) as const,
    );
    const { succeeded } = await store.txn([], deletes);
    if (!succeeded) throw new Error(`${name} was not deleted`);
  }

  #read(line: string): void {
    const { msg, node, type, names } = JSON.parse(line);
    if (msg === "xDS response") this.#onResponse({ node, type, names });
  }

  close(): Promise<void> {
    return this.#fixture.cleanUp();
  }
}
