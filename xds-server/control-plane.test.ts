import { chmodSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createAdminClient } from "./admin/admin-client.js";
import type { ControlPlane } from "./control-plane.js";
import { ControlPlaneFixture, type PretendedEnvoy, registerRanker } from "./control-plane-fixture.js";
import { ManualClock } from "./platform/manual-clock.js";
import { CLUSTER_TYPE, ENDPOINT_TYPE, EXTENSION_TYPE, LISTENER_TYPE, ROUTE_TYPE } from "./snapshot/resource-types.js";
import { Caller, connect } from "./xds/connection-fixture.js";

let fixture: ControlPlaneFixture;

beforeEach(() => {
  fixture = new ControlPlaneFixture();
});

afterEach(() => fixture.cleanUp());

const POLL = { timeout: 10_000, interval: 5 };
const messagesOf = (plane: ControlPlane): string[] => plane.findings().map(({ message }) => message);

/** Whether the routes of ranker name the cluster of a version. */
function routesTo(envoy: PretendedEnvoy, version: number): boolean {
  return envoy.textOf(ROUTE_TYPE, "routes/ranker").includes(`model/ranker/${version}`);
}

describe("createControlPlane", () => {
  it("turns admin writes and batchers into what Envoy holds, and takes both back", async () => {
    const plane = await fixture.start();
    expect(plane.ready).toBe(true);
    const admin = fixture.admin(plane);
    const envoy = fixture.envoy(plane, ["routes/ranker", "gate"]);
    await registerRanker(admin);
    await expect.poll(() => envoy.textOf(LISTENER_TYPE, "gateway"), POLL).not.toBe("");
    await expect.poll(() => envoy.textOf(EXTENSION_TYPE, "gate"), POLL).toContain("acme");
    await expect.poll(() => envoy.textOf(CLUSTER_TYPE, "model/ranker/41"), POLL).not.toBe("");

    const first = fixture.batcher(plane, "ranker", 41n, 19_000);
    fixture.batcher(plane, "ranker", 42n, 19_020);
    await expect.poll(() => [routesTo(envoy, 41), routesTo(envoy, 42)], POLL).toEqual([true, true]);
    expect(envoy.textOf(ENDPOINT_TYPE, "model/ranker/41")).toContain("127.0.0.1");
    expect(messagesOf(plane)).toEqual(["signatures are not checked yet"]);

    const { revision } = await admin.getAlias({ model: "ranker" });
    const split = [
      { version: 41n, weight: 100 },
      { version: 42n, weight: 0 },
    ];
    const before = envoy.textOf(ROUTE_TYPE, "routes/ranker");
    await admin.setAlias({ alias: { model: "ranker", alias: "prod", split }, expectedRevision: revision });
    expect((await plane.whenSettled(10_000)).settled).toBe(true);
    expect(envoy.textOf(ROUTE_TYPE, "routes/ranker")).not.toBe(before);

    first.close();
    await expect.poll(() => envoy.textOf(ENDPOINT_TYPE, "model/ranker/41"), POLL).not.toContain("127.0.0.1");
    await expect.poll(() => messagesOf(plane).join(), POLL).toContain("no ready replica");
  });

  it("keeps everything over a restart; replicas wait 30 s for their batchers", async () => {
    const plane = await fixture.start();
    await registerRanker(fixture.admin(plane));
    fixture.batcher(plane, "ranker", 41n, 19_000);
    fixture.batcher(plane, "ranker", 42n, 19_020);
    await expect.poll(() => messagesOf(plane), POLL).toEqual(["signatures are not checked yet"]);
    const status = await fixture.admin(plane).getStatus();
    const model = await fixture.admin(plane).getModel({ model: "ranker" });
    await plane.close();
    await plane.close();

    const clock = new ManualClock();
    const next = await fixture.start({}, { clock });
    expect(next.token).toBe(plane.token);
    const admin = fixture.admin(next);
    expect(await admin.getModel({ model: "ranker" })).toEqual(model);
    expect((await admin.getStatus()).replicas).toEqual(status.replicas);
    expect(messagesOf(next).filter((message) => message.includes("has not reconnected"))).toHaveLength(2);
    const envoy = fixture.envoy(next, ["routes/ranker", "gate"]);
    await expect.poll(() => [routesTo(envoy, 41), routesTo(envoy, 42)], POLL).toEqual([true, true]);

    fixture.batcher(next, "ranker", 41n, 19_000);
    await expect
      .poll(() => messagesOf(next).filter((text) => text.includes("has not reconnected")), POLL)
      .toHaveLength(1);
    clock.advance(30_000);
    await expect
      .poll(async () => (await admin.getStatus()).replicas.map(({ version }) => version), POLL)
      .toEqual([41n]);
    // The debounce waits on the same clock.
    clock.advance(20);
    await expect.poll(() => envoy.textOf(ENDPOINT_TYPE, "model/ranker/42"), POLL).not.toContain("127.0.0.1");
    // Its batcher may have said a moment later that it is ready; then that waits for a burst's end of its own.
    await expect
      .poll(() => {
        clock.advance(20);
        return envoy.textOf(ENDPOINT_TYPE, "model/ranker/41");
      }, POLL)
      .toContain("127.0.0.1");
  });

  it("answers /live, /ready and /metrics", async () => {
    const plane = await fixture.start();
    await registerRanker(fixture.admin(plane));
    fixture.batcher(plane, "ranker", 41n, 19_000);
    const get = async (path: string): Promise<[number, string]> => {
      const response = await fetch(`http://127.0.0.1:${plane.healthPort}${path}`);
      return [response.status, await response.text()];
    };
    expect(await get("/live")).toEqual([200, "ok\n"]);
    expect(await get("/ready")).toEqual([200, "ok\n"]);
    expect((await get("/nothing"))[0]).toBe(404);
    await expect.poll(async () => (await get("/metrics"))[1], POLL).toContain("servemesh_replica_streams 1");
    const [, text] = await get("/metrics");
    expect(text).toContain('servemesh_admin_calls_total{method="PutModel",status="OK"} 1');
    expect(text).toMatch(/servemesh_registry_revision \d+/);
    expect(text).toContain('servemesh_findings{severity="error"} 0');
  });

  it("makes the token once, with mode 0600, and refuses one that others can read", async () => {
    const plane = await fixture.start();
    expect(statSync(fixture.options.tokenFile).mode & 0o777).toBe(0o600);
    expect(readFileSync(fixture.options.tokenFile, "utf8")).toBe(`${plane.token}\n`);
    await plane.close();
    chmodSync(fixture.options.tokenFile, 0o640);
    await expect(fixture.start()).rejects.toThrow(`token file ${fixture.options.tokenFile} has mode 0640`);
    chmodSync(fixture.options.tokenFile, 0o600);
    writeFileSync(fixture.options.tokenFile, "short\n");
    await expect(fixture.start()).rejects.toThrow("does not hold one token");
  });

  it("refuses a wrong token on the admin port", async () => {
    const plane = await fixture.start();
    const admin = createAdminClient({ address: plane.adminAddress, token: `${plane.token}x` });
    await expect(admin.getStatus()).rejects.toMatchObject({ status: "UNAUTHENTICATED" });
    admin.close();
  });

  it("ends the streams of Envoys in order when it is closed, and takes no new ones", async () => {
    const plane = await fixture.start();
    const client = connect(Number(plane.adsAddress.split(":")[1]));
    fixture.onCleanUp(() => client.close());
    const open = new Caller(client, "envoy-1", CLUSTER_TYPE);
    await expect.poll(() => plane.nodes().length, POLL).toBe(1);
    const closed = plane.close();
    expect(plane.ready).toBe(false);
    await expect.poll(() => open.end, POLL).toBe("0 OK");
    const late = new Caller(client, "envoy-2", CLUSTER_TYPE);
    await expect.poll(() => late.end, POLL).toMatch(/^14 /);
    await closed;
  });

  it("says which flag's port is taken, and leaves nothing open", async () => {
    const other = createServer();
    const port = await new Promise<number>((resolve) =>
      other.listen(0, "127.0.0.1", () => resolve((other.address() as { port: number }).port)),
    );
    const taken = { host: "127.0.0.1", port };
    for (const flag of ["ads", "admin", "health"] as const) {
      await expect(fixture.start({ [flag]: taken })).rejects.toThrow(
        `--${flag}: 127.0.0.1:${port} is taken by another process; stop that process or choose another port`,
      );
    }
    other.close();
    await fixture.start();
  });

  it("refuses a store that another control plane uses", async () => {
    await fixture.start();
    await expect(fixture.start()).rejects.toThrow(`store ${fixture.options.store} cannot be opened: it is open`);
  });

  it("reports a record that cannot be read, and serves the others", async () => {
    const plane = await fixture.start();
    await registerRanker(fixture.admin(plane));
    await plane.close();
    const { LmdbStore } = await import("./registry/lmdb-store.js");
    const store = new LmdbStore(fixture.options.store, new ManualClock());
    await store.txn([], [{ kind: "put", key: "/servemesh/v1/models/broken", value: "{" }]);
    await store.close();
    const next = await fixture.start();
    const envoy = fixture.envoy(next, ["routes/ranker", "gate"]);
    await expect.poll(() => envoy.textOf(ROUTE_TYPE, "routes/ranker"), POLL).not.toBe("");
    const { findings } = await fixture.admin(next).getStatus();
    expect(findings).toContainEqual({
      severity: "error",
      subject: "/servemesh/v1/models/broken",
      message: expect.stringContaining("the record is not JSON"),
    });
  });
});
