import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { credentials, Metadata, Server, type ServerDuplexStream, type ServiceError, status } from "@grpc/grpc-js";
import {
  GRPCInferenceServiceClient,
  ModelInferRequest,
  type ModelInferResponse,
} from "@servemesh/proto/gen/mesh/inference/grpc_service.js";
import {
  type ConnectRequest,
  type ConnectResponse,
  ReplicaServiceService,
} from "@servemesh/proto/gen/mesh/servemesh/control/v1/replica.js";
import { ModelVersion, ReplicaState } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { H_REASON, H_REQUEST_ID, H_ROUTE, H_SHADOW_CLUSTER, H_TENANT } from "@servemesh/proto/names";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { bindServer } from "./platform/grpc-server.js";
import { createSidecar, type Sidecar, type SidecarOptions } from "./sidecar.js";
import { MONITOR_TIMES } from "./triton/monitor.js";
import { FakeFailure, FakeTriton, STUB_DEAD_WORDS } from "./triton/testing/fake-triton.js";

const RECORD = ModelVersion.fromPartial({
  model: "ranker",
  version: 41n,
  artifactDigest: "sha256:41",
  serving: {
    inputs: [{ name: "features", datatype: "FP32", shape: [-1n, 4n] }],
    outputs: [{ name: "scores", datatype: "FP32", shape: [-1n, 4n] }],
    batching: { maxBatchSize: 8, maxQueueDelayUs: 2000 },
  },
});

/** A control plane of one stream: keeps what comes up, sends an assignment after Hello. */
class FakeControlPlane {
  readonly up: ConnectRequest[] = [];
  stream: ServerDuplexStream<ConnectRequest, ConnectResponse> | undefined;
  private server: Server | undefined;
  port = 0;

  async start(record: ModelVersion | undefined = RECORD): Promise<this> {
    const server = new Server();
    server.addService(ReplicaServiceService, {
      connect: (stream: ServerDuplexStream<ConnectRequest, ConnectResponse>) => {
        this.stream = stream;
        stream.on("error", () => {});
        stream.on("data", (message: ConnectRequest) => {
          this.up.push(message);
          if (message.message?.$case !== "hello") return;
          stream.write({ message: { $case: "assignment", value: { version: record, model: undefined } } });
        });
      },
    });
    this.port = await bindServer(server, `127.0.0.1:${this.port}`);
    this.server = server;
    return this;
  }

  stop(): void {
    this.server?.forceShutdown();
  }

  states(): ReplicaState[] {
    return this.up.flatMap(({ message }) => (message?.$case === "state" ? [message.value.state] : []));
  }

  last(): ReplicaState | undefined {
    return this.states().at(-1);
  }

  kinds(): Set<string | undefined> {
    return new Set(this.up.map(({ message }) => message?.$case));
  }
}

const cleanUp: (() => unknown)[] = [];
let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "servemesh-sidecar-"));
});
afterEach(async () => {
  for (const step of cleanUp.splice(0).reverse()) await step();
  rmSync(directory, { recursive: true, force: true });
});

async function startSidecar(triton: FakeTriton, over: Partial<SidecarOptions>): Promise<Sidecar> {
  const sidecar = await createSidecar(
    {
      model: "ranker",
      version: 41n,
      replicaId: "r1",
      listen: { host: "127.0.0.1", port: 0 },
      triton: triton.address,
      journalDir: directory,
      health: { host: "127.0.0.1", port: 0 },
      limits: { drainGraceMs: 100, drainMs: 2000 },
      ...over,
    },
    {
      logger: pino({ level: "silent" }),
      loadTransform: (name) => {
        throw new Error(`no transform ${name}`);
      },
      monitorTimes: { ...MONITOR_TIMES, unreadyPollMs: 50, readyPollMs: 200, loadIntervalMs: 100 },
      processMetrics: false,
    },
  );
  cleanUp.push(() => sidecar.close());
  return sidecar;
}

async function setUp(over: Partial<SidecarOptions> = { record: RECORD }) {
  const triton = await new FakeTriton().start();
  cleanUp.push(() => triton.kill());
  const sidecar = await startSidecar(triton, over);
  return { triton, sidecar };
}

async function setUpWithControlPlane(record: ModelVersion = RECORD) {
  const controlPlane = await new FakeControlPlane().start(record);
  cleanUp.push(() => controlPlane.stop());
  const { triton, sidecar } = await setUp({ controlPlane: { host: "127.0.0.1", port: controlPlane.port } });
  return { triton, sidecar, controlPlane };
}

function request(value: number): ModelInferRequest {
  const raw = Buffer.alloc(16);
  raw.writeFloatLE(value);
  return ModelInferRequest.fromPartial({
    modelName: "ranker",
    inputs: [{ name: "features", datatype: "FP32", shape: [1n, 4n] }],
    rawInputContents: [raw],
  });
}

/** One call through the real door. @returns the first score, or `reason/status` of the refusal */
function caller(sidecar: Sidecar) {
  const client = new GRPCInferenceServiceClient(sidecar.address, credentials.createInsecure());
  cleanUp.push(() => client.close());
  return (value: number, headers: Record<string, string> = {}, deadlineMs = 5_000): Promise<number | string> => {
    const metadata = new Metadata();
    for (const [name, text] of Object.entries(headers)) metadata.set(name, text);
    return new Promise((resolve) => {
      client.modelInfer(
        request(value),
        metadata,
        { deadline: Date.now() + deadlineMs },
        (error: ServiceError | null, answer?: ModelInferResponse) => {
          if (error !== null) resolve(`${String(error.metadata.get(H_REASON)[0])}/${status[error.code]}`);
          else resolve(answer?.rawOutputContents[0]?.readFloatLE(0) ?? Number.NaN);
        },
      );
    });
  };
}

const health = async (sidecar: Sidecar, path: string): Promise<[number, string]> => {
  const response = await fetch(`http://127.0.0.1:${sidecar.healthPort}${path}`);
  return [response.status, await response.text()];
};

describe("a sidecar without a control plane", () => {
  it("batches calls that come together, and shows it", async () => {
    const { triton, sidecar } = await setUp();
    await expect.poll(() => sidecar.ready).toBe(true);
    triton.requests.length = 0;
    const call = caller(sidecar);
    await call(0);
    const answers = await Promise.all([1, 2, 3, 4, 5, 6, 7, 8].map((value) => call(value)));
    expect(answers).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(triton.requests.length).toBeLessThan(6);
    expect(await health(sidecar, "/livez")).toEqual([200, "ok\n"]);
    expect((await health(sidecar, "/readyz"))[0]).toBe(200);
    const [, metrics] = await health(sidecar, "/metrics");
    expect(metrics).toContain('servemesh_batcher_requests_total{leg="primary",outcome="ok"} 9');
    expect(metrics).toMatch(/servemesh_batcher_stage_seconds_bucket\{le="0.01",stage="infer"\}/);
    expect(metrics).toContain("servemesh_batcher_ready 1");
    expect((await health(sidecar, "/nothing"))[0]).toBe(404);
  });

  it("is not ready, says why, and refuses until the zero inference has passed", async () => {
    const triton = await new FakeTriton().start();
    cleanUp.push(() => triton.kill());
    triton.behaviour = (sent) => ({
      ...triton.echo(sent),
      outputs: [{ name: "scores", datatype: "FP64", shape: [1n, 4n], parameters: {}, contents: undefined }],
    });
    const sidecar = await startSidecar(triton, { record: RECORD });
    await expect
      .poll(async () => (await health(sidecar, "/readyz"))[1])
      .toContain("the version's spec says FP32 [-1,4]");
    expect(await caller(sidecar)(1)).toBe("unavailable/UNAVAILABLE");
    triton.behaviour = (sent) => triton.echo(sent);
    await expect.poll(() => sidecar.ready).toBe(true);
  });

  it("judges health by answers: a dead python process is seen, repaired and reported", async () => {
    const { triton, sidecar } = await setUp();
    await expect.poll(() => sidecar.ready).toBe(true);
    triton.behaviour = (sent) => {
      if (triton.loads > 1) return triton.echo(sent);
      throw new FakeFailure(status.INTERNAL, STUB_DEAD_WORDS);
    };
    const call = caller(sidecar);
    expect(await call(1)).toBe("unavailable/UNAVAILABLE");
    await expect.poll(() => sidecar.ready, { interval: 5 }).toBe(false);
    await expect.poll(() => sidecar.ready, { timeout: 5000 }).toBe(true);
    expect(triton.loads).toBe(2);
    expect(await call(2)).toBe(2);
  });

  it("survives the model server's death and return on the same port (C067)", async () => {
    const { triton, sidecar } = await setUp();
    await expect.poll(() => sidecar.ready).toBe(true);
    const call = caller(sidecar);
    triton.behaviour = () => new Promise(() => {});
    const inFlight = call(1);
    await new Promise((resolve) => setTimeout(resolve, 50));
    triton.kill();
    expect(await inFlight).toBe("unavailable/UNAVAILABLE");
    await expect.poll(() => sidecar.ready).toBe(false);
    expect(await call(2)).toBe("unavailable/UNAVAILABLE");
    triton.behaviour = (sent) => triton.echo(sent);
    await triton.start();
    await expect.poll(() => sidecar.ready, { timeout: 10_000 }).toBe(true);
    expect(await call(3)).toBe(3);
  });

  it("writes both legs of mirrored requests to the journal", async () => {
    const { sidecar } = await setUp();
    await expect.poll(() => sidecar.ready).toBe(true);
    const mesh = { [H_ROUTE]: "ranker/prod", [H_TENANT]: "acme" };
    const call = caller(sidecar);
    await call(1, mesh);
    await call(2, { ...mesh, [H_REQUEST_ID]: "pair", [H_SHADOW_CLUSTER]: "model/ranker/43" });
    await sidecar.close();
    const [file] = readdirSync(join(directory, "r1"));
    const lines = readFileSync(join(directory, "r1", file ?? ""), "utf8")
      .trimEnd()
      .split("\n");
    expect(lines).toHaveLength(1);
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({
      requestId: "pair",
      leg: "primary",
      tenant: "acme",
      servedBy: "ranker:41",
    });
  });

  it("names the flag when a port is taken", async () => {
    const { triton, sidecar } = await setUp();
    const port = Number(sidecar.address.split(":")[1]);
    await expect(startSidecar(triton, { record: RECORD, listen: { host: "127.0.0.1", port } })).rejects.toThrow(
      /^--listen: /,
    );
    await expect(
      startSidecar(triton, { record: RECORD, health: { host: "127.0.0.1", port: sidecar.healthPort ?? 0 } }),
    ).rejects.toThrow(/^--health: .*EADDRINUSE/);
  });
});

describe("a sidecar with a control plane", () => {
  it("says who it is, reports readiness and load, and serves what it is assigned", async () => {
    const { sidecar, controlPlane } = await setUpWithControlPlane();
    await expect.poll(() => controlPlane.last()).toBe(ReplicaState.REPLICA_STATE_READY);
    expect(controlPlane.up[0]?.message).toMatchObject({
      $case: "hello",
      value: { replicaId: "r1", model: "ranker", version: 41n, address: sidecar.address },
    });
    expect(controlPlane.states()[0]).toBe(ReplicaState.REPLICA_STATE_STARTING);
    expect(await caller(sidecar)(5)).toBe(5);
    await expect.poll(() => controlPlane.kinds().has("load"), { timeout: 5000 }).toBe(true);
  });

  it("keeps its assignment when the control plane is lost, and reports again to the next one", async () => {
    const { sidecar, controlPlane } = await setUpWithControlPlane();
    await expect.poll(() => controlPlane.last()).toBe(ReplicaState.REPLICA_STATE_READY);
    controlPlane.stop();
    const call = caller(sidecar);
    expect(await call(6)).toBe(6);
    controlPlane.up.length = 0;
    await controlPlane.start();
    await expect.poll(() => controlPlane.last(), { timeout: 15_000 }).toBe(ReplicaState.REPLICA_STATE_READY);
    expect([...controlPlane.kinds()][0]).toBe("hello");
    expect(await call(7)).toBe(7);
  });

  it("reports a record that it cannot serve as failed, with the reason", async () => {
    const { controlPlane, sidecar } = await setUpWithControlPlane({ ...RECORD, version: 42n });
    await expect.poll(() => controlPlane.last()).toBe(ReplicaState.REPLICA_STATE_FAILED);
    expect((await health(sidecar, "/readyz"))[1]).toContain(
      "assigned ranker:42, but this batcher was started for ranker:41",
    );
  });

  it("drains: tells first, serves on for the grace, refuses after it, finishes what is inside", async () => {
    const { triton, sidecar, controlPlane } = await setUpWithControlPlane();
    await expect.poll(() => controlPlane.last()).toBe(ReplicaState.REPLICA_STATE_READY);
    const call = caller(sidecar);
    triton.behaviour = async (sent) => {
      await new Promise((resolve) => setTimeout(resolve, 400));
      return triton.echo(sent);
    };
    const inside = call(1);
    await new Promise((resolve) => setTimeout(resolve, 20));
    controlPlane.stream?.write({ message: { $case: "drain", value: { reason: "test" } } });
    await expect.poll(() => controlPlane.last()).toBe(ReplicaState.REPLICA_STATE_DRAINING);
    await new Promise((resolve) => setTimeout(resolve, 150));
    expect(await call(2)).toBe("draining/UNAVAILABLE");
    expect(await inside).toBe(1);
    await sidecar.ended;
    expect((await call(3)) as string).toMatch(/UNAVAILABLE$/);
  });
});
