import { randomBytes } from "node:crypto";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { Stage } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { pino } from "pino";
import { ManualClock } from "../platform/manual-clock.js";
import { TestRegistry } from "../registry/registry-fixture.js";
import type { ObservedNode } from "../xds/csds-node-book.js";
import { type AdminClient, type AdminError, createAdminClient } from "./admin-client.js";
import { addAdminService, REQUEST_MAX_BYTES } from "./admin-service.js";

/** The token of the fixture's server. */
export const TOKEN = "sm_admin_0123456789abcdefghijkl";

/** What the fixture's versions take and give. */
export const SERVING = {
  inputs: [{ name: "features", datatype: "FP32", shape: [-1n, 4n] }],
  outputs: [{ name: "score", datatype: "FP32", shape: [-1n, 1n] }],
};

/** An admin server over a registry of its own, and a client with the right token, for tests. */
export class AdminFixture {
  /** `Method STATUS` of each answered call. */
  readonly called: string[] = [];
  /** What the server says of connected Envoys. */
  xdsNodes: readonly ObservedNode[] = [];
  readonly admin: AdminClient;

  private constructor(
    readonly test: TestRegistry,
    readonly server: Server,
    readonly address: string,
  ) {
    this.admin = createAdminClient({ address, token: TOKEN });
  }

  static async open(): Promise<AdminFixture> {
    const clock = new ManualClock();
    const test = await TestRegistry.open(clock);
    const server = new Server({ "grpc.max_receive_message_length": REQUEST_MAX_BYTES });
    const port = await new Promise<number>((resolve, reject) =>
      server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
        error === null ? resolve(bound) : reject(error),
      ),
    );
    const fixture = new AdminFixture(test, server, `127.0.0.1:${port}`);
    addAdminService(server, {
      registry: test.registry,
      token: TOKEN,
      clock,
      random: randomBytes,
      logger: pino({ level: "silent" }),
      findings: () => [{ severity: "warning", subject: "versions", message: "signatures are not checked yet" }],
      nodes: () => [
        { nodeId: "envoy-1", types: [{ typeUrl: "t", sentVersion: "2", ackedVersion: "1", nack: "bad weight" }] },
      ],
      xdsNodes: () => fixture.xdsNodes,
      called: (method, status) => fixture.called.push(`${method} ${status}`),
    });
    return fixture;
  }

  async close(): Promise<void> {
    this.admin.close();
    this.server.forceShutdown();
    await this.test.close();
  }

  async putRanker(): Promise<void> {
    await this.admin.putModel({ model: { name: "ranker", slo: { deadlineMs: 2_000 }, allowedTenants: ["*"] } });
  }

  /** Registers a version and moves it up to a stage. */
  async register(version: bigint, stage = Stage.STAGE_REGISTERED, model = "ranker", serving = SERVING): Promise<void> {
    await this.admin.registerVersion({ version: { model, version, serving } });
    for (const next of [Stage.STAGE_STAGING, Stage.STAGE_PRODUCTION]) {
      if (next <= stage) await this.admin.moveStage({ model, version, stage: next, reason: "test" });
    }
  }
}

/** `STATUS: message` of a refused call. */
export async function refusal(call: Promise<unknown>): Promise<string> {
  try {
    await call;
  } catch (error) {
    return `${(error as AdminError).status}: ${(error as AdminError).message}`;
  }
  throw new Error("the call was not refused");
}
