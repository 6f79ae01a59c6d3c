import { readFileSync } from "node:fs";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { restDescriptorPath } from "@servemesh/proto/sources";
import { systemClock } from "../platform/clock.js";
import { PretendedBatcher, type SeenCall } from "./batcher-fixture.js";
import { type AdsApiType, type RunningEnvoy, startEnvoy } from "./envoy-fixture.js";
import { freePorts } from "./ports-fixture.js";
import type { NodeStatus, SettleReport, XdsServer, XdsServerDeps } from "./xds-server.js";

/** One batcher each; `stable` and `stable2` are the two replicas of ranker 41. */
const BATCHER_NAMES = ["stable", "stable2", "canary", "shadow", "lite", "echo"] as const;
export type BatcherName = (typeof BATCHER_NAMES)[number];

export interface MeshPorts {
  readonly ads: number;
  readonly http: number;
  readonly tls: number;
  readonly admin: number;
}

/** How long Envoy may take for anything that is waited for; far above what it needs, so that nothing depends on speed. */
export const PATIENCE_MS = 15_000;

/** A real Envoy between pretended batchers and an xDS server of the test's making. */
export class TestMesh {
  readonly batchers: Readonly<Record<BatcherName, PretendedBatcher>>;
  readonly ports: MeshPorts;
  /** `type: names` of each response as it was written, in order. */
  readonly wire: string[] = [];
  readonly #createServer: (deps: XdsServerDeps) => XdsServer;
  readonly #loads: Load<unknown>[] = [];
  #xds: XdsServer | undefined;
  #grpc: Server | undefined;
  #envoy: RunningEnvoy | undefined;

  private constructor(ports: readonly number[], createServer: (deps: XdsServerDeps) => XdsServer) {
    const [ads = 0, http = 0, tls = 0, admin = 0, ...others] = ports;
    this.ports = { ads, http, tls, admin };
    this.#createServer = createServer;
    this.batchers = Object.fromEntries(
      BATCHER_NAMES.map((name, index) => [name, new PretendedBatcher(others[index] ?? 0)]),
    ) as Record<BatcherName, PretendedBatcher>;
  }

  /** Opens the batchers and the ADS port; Envoy is started by `startEnvoy`. */
  static async open(createServer: (deps: XdsServerDeps) => XdsServer): Promise<TestMesh> {
    const mesh = new TestMesh(await freePorts(4 + BATCHER_NAMES.length), createServer);
    await Promise.all(Object.values(mesh.batchers).map((batcher) => batcher.listen()));
    await mesh.startControlPlane();
    return mesh;
  }

  async startControlPlane(): Promise<void> {
    const info = (fields: object, message: string): void => {
      const { type, names } = fields as { type: string; names: string[] };
      if (message === "xDS response") this.wire.push(`${type}: ${names.join(" ")}`);
    };
    this.#xds = this.#createServer({ clock: systemClock, logger: { info, warn: () => undefined } });
    const server = new Server();
    this.#grpc = server;
    this.#xds.addTo(server);
    await new Promise<void>((resolve, reject) =>
      server.bindAsync(`127.0.0.1:${this.ports.ads}`, ServerCredentials.createInsecure(), (error) =>
        error === null ? resolve() : reject(error),
      ),
    );
  }

  /** As a killed process would: streams and port are gone at once. */
  stopControlPlane(): void {
    this.#xds?.close();
    this.#grpc?.forceShutdown();
  }

  startEnvoy(binary: string, apiType: AdsApiType = "DELTA_GRPC"): void {
    const { ads, admin } = this.ports;
    this.#envoy = startEnvoy({ binary, adsPort: ads, adminPort: admin, nodeId: "gateway-1", apiType });
  }

  get xds(): XdsServer {
    if (this.#xds === undefined) throw new Error("the control plane was not started");
    return this.#xds;
  }

  get envoy(): RunningEnvoy {
    if (this.#envoy === undefined) throw new Error("Envoy was not started");
    return this.#envoy;
  }

  /** Waits until Envoy's port accepts connections at all. */
  async untilOpen(): Promise<void> {
    for (let tries = 0; tries < 150; tries += 1) {
      const isOpen = await fetch(`http://127.0.0.1:${this.ports.http}/`).then(
        (response) => response.arrayBuffer().then(() => true),
        () => false,
      );
      if (isOpen) return;
      await pause(100);
    }
    throw new Error(`Envoy does not answer on port ${this.ports.http}: ${this.envoy.log()}`);
  }

  async untilConnected(): Promise<NodeStatus> {
    for (let tries = 0; tries < 150; tries += 1) {
      const [node] = this.xds.status();
      if (node !== undefined) return node;
      await pause(100);
    }
    throw new Error(`Envoy did not connect: ${this.envoy.log()}`);
  }

  /**
   * Waits until Envoy has taken, or refused, all of the present state. Its main thread says so; its worker may learn a
   * moment later, but before it has answered one more call.
   */
  async settled(): Promise<SettleReport> {
    const report = await this.xds.whenSettled(PATIENCE_MS);
    await fetch(`http://127.0.0.1:${this.ports.http}/`).then(
      (response) => response.arrayBuffer(),
      () => undefined,
    );
    return report;
  }

  seenBy(...names: BatcherName[]): SeenCall[] {
    return names.flatMap((name) => this.batchers[name].seen);
  }

  /** All batchers answer well and at once again, and have seen nothing. */
  calm(): void {
    for (const batcher of Object.values(this.batchers)) {
      batcher.behaviour = "serve";
      batcher.delayMs = 0;
      batcher.paddingBytes = 0;
      batcher.seen.length = 0;
    }
  }

  /** Begins calls that run beside the test. A test that fails leaves them to `close`. */
  load<Outcome>(call: () => Promise<Outcome>): Load<Outcome> {
    const load = new Load(call);
    this.#loads.push(load);
    return load;
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#loads.map((load) => load.stop()));
    await this.#envoy?.stop();
    this.stopControlPlane();
    for (const batcher of Object.values(this.batchers)) batcher.close();
  }

  /** Where the batchers and the gateway listen, for `rankerOn`. */
  get servingPorts(): Readonly<Record<BatcherName | "http", number>> {
    const ports = Object.entries(this.batchers).map(([name, { port }]) => [name, port]);
    return { ...(Object.fromEntries(ports) as Record<BatcherName, number>), http: this.ports.http };
  }

  get echoAddress(): string {
    return `127.0.0.1:${this.batchers.echo.port}`;
  }
}

export function restDescriptor(): Uint8Array {
  return readFileSync(restDescriptorPath);
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Calls one after the other until it is stopped, and tells what happened. */
class Load<Outcome> {
  readonly outcomes: Outcome[] = [];
  #isRunning = true;
  #problem: unknown;
  readonly #done: Promise<void>;

  constructor(call: () => Promise<Outcome>) {
    this.#done = this.#run(call).catch((problem: unknown) => {
      this.#problem = problem;
    });
  }

  /** @throws what a call threw */
  async stop(): Promise<readonly Outcome[]> {
    this.#isRunning = false;
    await this.#done;
    if (this.#problem !== undefined) throw this.#problem;
    return this.outcomes;
  }

  async #run(call: () => Promise<Outcome>): Promise<void> {
    while (this.#isRunning) this.outcomes.push(await call());
  }
}
