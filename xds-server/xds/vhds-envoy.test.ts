import { request } from "node:http";
import { Listener } from "@servemesh/proto/gen/envoy/envoy/config/listener/v3/listener.js";
import { RouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route.js";
import { VirtualHost } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route_components.js";
import { Router } from "@servemesh/proto/gen/envoy/envoy/extensions/filters/http/router/v3/router.js";
import { HttpConnectionManager } from "@servemesh/proto/gen/envoy/envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.js";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { buildSnapshot } from "../snapshot/snapshot.js";
import { packAny } from "../translate/any.js";
import { adsSource } from "../translate/sources.js";
import { envoyBinary } from "./envoy-fixture.js";
import { PATIENCE_MS, TestMesh } from "./mesh-fixture.js";
import { XdsServer } from "./xds-server.js";

/**
 * Virtual hosts that Envoy asks for when a call needs them (rule 43, fault 15). The mesh's own tables hold all of their hosts;
 * this shows that the type is answered as Envoy expects it.
 */
const binary = envoyBinary();
if (binary === undefined) console.info("skipped: no Envoy; run `npm run setup` or set ENVOY_BIN");

const TABLE = "hosts";
/** Envoy 1.40 takes no notice of an answer without any host, and opens its port when this is over. */
const START_MS = 200;
const ON_DEMAND = "type.googleapis.com/envoy.extensions.filters.http.on_demand.v3.OnDemand";

function hostOf(authority: string, body: string): VirtualHost {
  const specifier = { $case: "inlineString", value: body } as const;
  const action = { $case: "directResponse", value: { status: 200, body: { specifier } } } as const;
  const match = { pathSpecifier: { $case: "prefix", value: "/" } } as const;
  return VirtualHost.fromPartial({ name: `${TABLE}/${authority}`, domains: [authority], routes: [{ match, action }] });
}

const BOTH = [hostOf("a.example", "a"), hostOf("b.example", "b")];

function listenerOn(port: number): Listener {
  const manager = HttpConnectionManager.fromPartial({
    statPrefix: "on-demand",
    routeSpecifier: { $case: "rds", value: { routeConfigName: TABLE, configSource: adsSource() } },
    httpFilters: [
      {
        name: "on-demand",
        configType: { $case: "typedConfig", value: { typeUrl: ON_DEMAND, value: Buffer.alloc(0) } },
      },
      { name: "router", configType: { $case: "typedConfig", value: packAny(Router, Router.fromPartial({})) } },
    ],
  });
  const filter = { name: "http", configType: { $case: "typedConfig", value: packAny(HttpConnectionManager, manager) } };
  const socketAddress = { address: "127.0.0.1", portSpecifier: { $case: "portValue", value: port } };
  return Listener.fromPartial({
    name: "on-demand",
    address: { address: { $case: "socketAddress", value: socketAddress } },
    filterChains: [{ filters: [filter] }],
  } as object);
}

describe.skipIf(binary === undefined)("virtual hosts that a real Envoy asks for", () => {
  let mesh: TestMesh;

  const publish = (hosts: readonly VirtualHost[]): void =>
    mesh.xds.setSnapshot(
      buildSnapshot({
        clusters: [],
        endpoints: [],
        scopes: [],
        extensions: [],
        listeners: [listenerOn(mesh.ports.http)],
        routes: [RouteConfiguration.fromPartial({ name: TABLE, vhds: { configSource: adsSource(START_MS) } })],
        virtualHosts: hosts,
      }),
    );

  const call = (host: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const options = { host: "127.0.0.1", port: mesh.ports.http, headers: { host }, agent: false, timeout: 10_000 };
      const outgoing = request(options, (answer) => {
        const chunks: Buffer[] = [];
        answer.on("data", (chunk: Buffer) => chunks.push(chunk));
        answer.on("end", () => resolve(`${answer.statusCode} ${Buffer.concat(chunks)}`));
      });
      outgoing.on("timeout", () => outgoing.destroy(new Error(`no answer for ${host}`)));
      outgoing.on("error", reject).end();
    });

  beforeAll(async () => {
    mesh = await TestMesh.open((deps) => new XdsServer(deps));
    publish(BOTH);
    mesh.startEnvoy(binary ?? "");
    await mesh.untilOpen();
  });

  afterAll(() => mesh?.close());

  /** Asks until Envoy, whose worker learns of a change a moment later, gives an answer. */
  const untilAnswered = (host: string, answer: string): Promise<void> =>
    vi.waitFor(async () => expect(await call(host)).toBe(answer), { timeout: PATIENCE_MS, interval: 20 });

  it("are none at its start, and one for each authority that is called", async () => {
    expect(mesh.wire.filter((line) => line.startsWith("VirtualHost"))[0]).toBe("VirtualHost: ");
    expect(await call("a.example")).toBe("200 a");
    expect(await call("b.example")).toBe("200 b");
    expect(await call("a.example")).toBe("200 a");
    expect(mesh.wire.filter((line) => line.includes(".example"))).toEqual([
      "VirtualHost: hosts/a.example",
      "VirtualHost: hosts/b.example",
    ]);
  });

  it("end a call at once when they do not exist, and serve it when they come to exist", async () => {
    expect(await call("late.example")).toBe("404 ");
    publish([...BOTH, hostOf("late.example", "late")]);
    await untilAnswered("late.example", "200 late");
    publish(BOTH);
    await untilAnswered("late.example", "404 ");
    expect(mesh.xds.findings()).toEqual([]);
  });

  it("follow their changes and their end, and no others", async () => {
    await call("a.example");
    publish([hostOf("a.example", "changed"), ...BOTH.slice(1)]);
    await untilAnswered("a.example", "200 changed");
    expect(mesh.wire.at(-1)).toBe("VirtualHost: hosts/a.example");
    publish(BOTH.slice(1));
    await untilAnswered("a.example", "404 ");
    publish(BOTH);
    await untilAnswered("a.example", "200 a");
    expect(await call("b.example")).toBe("200 b");
    expect(mesh.xds.findings()).toEqual([]);
  });
});
