import { type ClientDuplexStream, credentials, Server, ServerCredentials } from "@grpc/grpc-js";
import {
  type Assignment,
  type ConnectRequest,
  type ConnectResponse,
  Hello,
  ReplicaServiceClient,
} from "@servemesh/proto/gen/mesh/servemesh/control/v1/replica.js";
import { type Replica, ReplicaState } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../platform/manual-clock.js";
import { modelRecord, TestRegistry, versionRecords } from "../registry/registry-fixture.js";
import { ReplicaService } from "./replica-service.js";

const { REPLICA_STATE_READY, REPLICA_STATE_STARTING, REPLICA_STATE_DRAINING } = ReplicaState;
const DIGEST = `sha256:${"41".repeat(32)}`;
const OTHER_DIGEST = `sha256:${"42".repeat(32)}`;

let clock: ManualClock;
let test: TestRegistry;
let plane: Plane;
const clients: ReplicaServiceClient[] = [];

interface Plane {
  readonly service: ReplicaService;
  readonly server: Server;
  readonly port: number;
}

async function startPlane(): Promise<Plane> {
  const service = new ReplicaService({ registry: test.registry, clock, logger: pino({ level: "silent" }) });
  const server = new Server();
  service.addTo(server);
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  );
  return { service, server, port };
}

/** What a control plane that is told to stop does, and its next start on the same store. */
async function restartPlane(): Promise<void> {
  await plane.service.close();
  plane.server.forceShutdown();
  await test.restart();
  plane = await startPlane();
}

beforeEach(async () => {
  clock = new ManualClock();
  test = await TestRegistry.open(clock);
  await test.put(modelRecord("ranker"), ...versionRecords("ranker", 41n, DIGEST));
  plane = await startPlane();
});

afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  await plane.service.close();
  plane.server.forceShutdown();
  await test.close();
});

/** A batcher as the control plane sees it. */
class Batcher {
  readonly assignments: Assignment[] = [];
  readonly drains: string[] = [];
  readonly ended: Promise<string>;
  readonly #call: ClientDuplexStream<ConnectRequest, ConnectResponse>;

  constructor(hello?: Partial<Hello>) {
    const client = new ReplicaServiceClient(`127.0.0.1:${plane.port}`, credentials.createInsecure(), {
      "grpc.use_local_subchannel_pool": 1,
    });
    clients.push(client);
    this.#call = client.connect();
    this.#call.on("data", ({ message }: ConnectResponse) => {
      if (message?.$case === "assignment") this.assignments.push(message.value);
      if (message?.$case === "drain") this.drains.push(message.value.reason);
    });
    this.ended = new Promise((resolve) => {
      this.#call.on("error", (error) => resolve(error.message));
      this.#call.on("end", () => resolve("end"));
    });
    if (hello !== undefined) this.hello(hello);
  }

  hello(hello: Partial<Hello>): this {
    const value = { replicaId: "r1", model: "ranker", version: 41n, address: "127.0.0.1:19000", ...hello };
    return this.write({ message: { $case: "hello", value: Hello.fromPartial(value) } });
  }

  state(state: ReplicaState, loadedDigest = DIGEST, detail = ""): this {
    return this.write({ message: { $case: "state", value: { state, detail, loadedDigest } } });
  }

  load(queued: number): this {
    const value = { queued, inFlight: 1, capacity: 8, queueWaitUs: 10, serviceTimeUs: 20 };
    return this.write({ message: { $case: "load", value } });
  }

  write(request: ConnectRequest): this {
    this.#call.write(request);
    return this;
  }

  end(): void {
    this.#call.end();
  }

  cancel(): void {
    this.#call.cancel();
  }
}

function replicas(): Replica[] {
  return [...test.registry.state.replicas.values()].map(({ value }) => value);
}

/** `r1 READY` for each record. */
function states(): string[] {
  return replicas().map(({ id, state }) => `${id} ${ReplicaState[state]?.replace("REPLICA_STATE_", "")}`);
}

async function untilStates(...expected: string[]): Promise<void> {
  await expect.poll(states, { interval: 2 }).toEqual(expected);
}

async function untilDetail(part: string): Promise<void> {
  await expect.poll(() => replicas()[0]?.detail, { interval: 2 }).toContain(part);
}

/** Lets everything that is under way reach the other side, when nothing is expected to happen. */
async function settle(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 40));
}

describe("a batcher's stream", () => {
  it("brings an assignment and a record, and takes the record with it when it breaks", async () => {
    const batcher = new Batcher({}).state(REPLICA_STATE_READY);
    await untilStates("r1 READY");
    expect(replicas()[0]).toMatchObject({ address: "127.0.0.1:19000", loadedDigest: DIGEST, version: 41n });
    expect(batcher.assignments).toHaveLength(1);
    expect(batcher.assignments[0]).toMatchObject({ version: { version: 41n }, model: { name: "ranker" } });
    batcher.cancel();
    await untilStates();
    expect(clock.pendingTimers).toBe(0);
  });

  it("may also end in an orderly way", async () => {
    const batcher = new Batcher({}).state(REPLICA_STATE_READY);
    await untilStates("r1 READY");
    batcher.end();
    expect(await batcher.ended).toBe("end");
    await untilStates();
  });

  it("follows every state, and writes only changes", async () => {
    const batcher = new Batcher({}).state(REPLICA_STATE_STARTING, "", "loading");
    await untilDetail("loading");
    expect(states()).toEqual(["r1 STARTING"]);
    batcher.state(REPLICA_STATE_READY);
    await untilStates("r1 READY");
    const { revision } = test.registry.state;
    batcher.state(REPLICA_STATE_READY).load(3).state(REPLICA_STATE_READY);
    await expect.poll(() => plane.service.sessions[0]?.load?.queued).toBe(3);
    await settle();
    expect(test.registry.state.revision).toBe(revision);
    batcher.state(REPLICA_STATE_DRAINING);
    await untilStates("r1 DRAINING");
  });

  it("shows a batcher that tells no state as starting", async () => {
    new Batcher({});
    await untilDetail("connected, but has not told its state");
    expect(states()).toEqual(["r1 STARTING"]);
  });

  it("does not count a batcher with another artifact as ready", async () => {
    const batcher = new Batcher({}).state(REPLICA_STATE_READY, OTHER_DIGEST);
    await untilDetail(`serves artifact ${OTHER_DIGEST}`);
    expect(states()).toEqual(["r1 STARTING"]);
    batcher.state(REPLICA_STATE_READY, DIGEST);
    await untilStates("r1 READY");
  });
});

describe("assignments", () => {
  it("come again when the model's record changes, and only then", async () => {
    const batcher = new Batcher({});
    await expect.poll(() => batcher.assignments.length).toBe(1);
    await test.put(...versionRecords("ranker", 42n));
    await test.put(modelRecord("other"));
    await settle();
    expect(batcher.assignments).toHaveLength(1);
    await test.put(modelRecord("ranker", 80));
    await expect.poll(() => batcher.assignments.at(-1)?.model?.slo?.deadlineMs).toBe(80);
    expect(batcher.assignments).toHaveLength(2);
  });

  it("wait for the registration of an unknown version, which is never ready before", async () => {
    const batcher = new Batcher({ version: 99n }).state(REPLICA_STATE_READY, "");
    await untilDetail("version ranker:99 is not registered; register it");
    expect(states()).toEqual(["r1 STARTING"]);
    expect(batcher.assignments).toEqual([]);
    await test.put(...versionRecords("ranker", 99n));
    await untilStates("r1 READY");
    expect(batcher.assignments).toHaveLength(1);
  });
});

describe("two streams", () => {
  it("of one batcher: the newer one replaces the older, and the endpoint never leaves", async () => {
    const seen: string[] = [];
    const older = new Batcher({}).state(REPLICA_STATE_READY);
    await untilStates("r1 READY");
    test.registry.onChange(() => seen.push(states().join()));
    const newer = new Batcher({}).state(REPLICA_STATE_READY);
    expect(await older.ended).toContain("a newer stream of this replica replaces this one");
    await expect.poll(() => newer.assignments.length).toBe(1);
    await settle();
    expect(seen.filter((shown) => shown !== "r1 READY")).toEqual([]);
    expect(states()).toEqual(["r1 READY"]);
    newer.cancel();
    await untilStates();
  });

  it("of one batcher that now serves another version leave only the new record", async () => {
    await test.put(...versionRecords("ranker", 42n));
    const older = new Batcher({}).state(REPLICA_STATE_READY);
    await untilStates("r1 READY");
    new Batcher({ version: 42n }).state(REPLICA_STATE_READY, "");
    await older.ended;
    await expect.poll(() => replicas().map(({ version }) => version)).toEqual([42n]);
    expect(test.registry.state.findings).toEqual([]);
  });

  it.each([
    ["one id", { address: "127.0.0.1:19010" }, "hello.replica_id r1 is in use by the batcher at 127.0.0.1:19000"],
    ["one address", { replicaId: "r2" }, "hello.address 127.0.0.1:19000 is in use by replica r1"],
  ])("of two batchers with %s: the first one stays", async (_, hello, problem) => {
    new Batcher({}).state(REPLICA_STATE_READY);
    await untilStates("r1 READY");
    const second = new Batcher(hello).state(REPLICA_STATE_READY);
    expect(await second.ended).toContain(problem);
    expect(states()).toEqual(["r1 READY"]);
  });
});

describe("a restarted control plane", () => {
  it("keeps stored replicas for 30 s, says so, and then lets go of those who did not come back", async () => {
    new Batcher({}).state(REPLICA_STATE_READY);
    new Batcher({ replicaId: "r2", address: "127.0.0.1:19010" }).state(REPLICA_STATE_READY);
    await expect.poll(() => states().sort()).toEqual(["r1 READY", "r2 READY"]);
    expect(plane.service.findings()).toEqual([]);
    await restartPlane();
    expect(states().sort()).toEqual(["r1 READY", "r2 READY"]);
    expect(plane.service.findings().map(({ subject }) => subject)).toEqual([
      "replicas/ranker/41/r1",
      "replicas/ranker/41/r2",
    ]);
    const { revision } = test.registry.state;
    new Batcher({}).state(REPLICA_STATE_READY);
    await expect.poll(() => test.registry.state.revision).toBe(revision + 1n);
    clock.advance(29_999);
    await settle();
    expect(states().sort()).toEqual(["r1 READY", "r2 READY"]);
    clock.advance(1);
    await untilStates("r1 READY");
    expect(plane.service.findings()).toEqual([]);
  });

  it("does not take a reconnected batcher out while it has not told its state yet, but not for ever", async () => {
    new Batcher({}).state(REPLICA_STATE_READY);
    await untilStates("r1 READY");
    await restartPlane();
    const batcher = new Batcher({});
    await expect.poll(() => batcher.assignments.length).toBe(1);
    clock.advance(4_999);
    await settle();
    expect(states()).toEqual(["r1 READY"]);
    clock.advance(1);
    await untilStates("r1 STARTING");
  });

  it("forgets at once the predecessor of a batcher that has its address", async () => {
    new Batcher({}).state(REPLICA_STATE_READY);
    await untilStates("r1 READY");
    await restartPlane();
    new Batcher({ replicaId: "r9" }).state(REPLICA_STATE_STARTING, "");
    await untilStates("r9 STARTING");
  });

  it("ends streams without a drain when it stops", async () => {
    const batcher = new Batcher({}).state(REPLICA_STATE_READY);
    await untilStates("r1 READY");
    await plane.service.close();
    expect(await batcher.ended).toBe("end");
    expect(batcher.drains).toEqual([]);
    await settle();
    expect(states()).toEqual(["r1 READY"]);
  });
});

describe("refusals", () => {
  it.each([
    ["an id with a slash", { replicaId: "a/b" }, 'hello.replica_id "a/b" must match'],
    ["a bad model name", { model: "Ranker" }, 'hello.model "Ranker" must match'],
    ["version 0", { version: 0n }, "hello.version is 0 but versions count from 1"],
    ["a host name", { address: "localhost:1" }, 'hello.address "localhost:1" is not ip:port'],
    ["somebody else's address", { address: "10.0.0.7:19000", tls: true }, "a batcher may only register itself"],
    ["plain text elsewhere", { address: "10.0.0.7:19000" }, "speaks plain text there; start it with --tls-certificate"],
    ["a long software version", { softwareVersion: "v".repeat(65) }, "hello.software_version has 65 characters"],
  ])("%s", async (_, hello, problem) => {
    expect(await new Batcher(hello).ended).toContain(problem);
    expect(states()).toEqual([]);
  });

  it("a state before hello, a second hello and an unknown state", async () => {
    expect(await new Batcher().state(REPLICA_STATE_READY).ended).toContain("state came before hello; send hello first");
    expect(await new Batcher({}).hello({}).ended).toContain("hello came twice");
    expect(await new Batcher({}).state(ReplicaState.REPLICA_STATE_UNSPECIFIED).ended).toContain("state.state is 0");
    expect(await new Batcher({}).state(77 as ReplicaState).ended).toContain("state.state is 77");
    await untilStates();
  });

  it("a digest that cannot be stored", async () => {
    const batcher = new Batcher({}).state(REPLICA_STATE_STARTING, "x".repeat(300));
    expect(await batcher.ended).toContain("state: loaded_digest has 300 characters");
    await untilStates();
  });

  it("a stream that says nothing for 10 s", async () => {
    const batcher = new Batcher();
    await expect.poll(() => clock.pendingTimers).toBe(1);
    clock.advance(10_000);
    expect(await batcher.ended).toContain("no hello came within 10 s");
  });
});
