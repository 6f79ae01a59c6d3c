import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { messageToReadableJson } from "@servemesh/proto/any-json";
import { Cluster } from "@servemesh/proto/gen/envoy/envoy/config/cluster/v3/cluster.js";
import { TypedExtensionConfig } from "@servemesh/proto/gen/envoy/envoy/config/core/v3/extension.js";
import { ClusterLoadAssignment } from "@servemesh/proto/gen/envoy/envoy/config/endpoint/v3/endpoint.js";
import { Listener } from "@servemesh/proto/gen/envoy/envoy/config/listener/v3/listener.js";
import { RouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route.js";
import { ScopedRouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/scoped_route.js";
import { Runtime } from "@servemesh/proto/gen/envoy/envoy/service/runtime/v3/rtds.js";
import { describe, expect, it } from "vitest";
import { planMesh } from "../plan/plan.js";
import { rankerFixture, STAGE_PRODUCTION, STAGE_STAGING, type StateFixture, stateOf } from "../plan/state-fixture.js";
import { secretPairOf } from "../secrets/pair-fixture.js";
import { selfSignedCertificate } from "../xds/certificate-fixture.js";
import { translate } from "./translate-fixture.js";

/**
 * What goes to Envoy, in files that a person can read and a review can judge. `UPDATE_GOLDEN=1 npx vitest run
 * xds-server/translate` writes them anew (then `npx biome format --write`); look at the difference before you keep it.
 */
const UPDATE = process.env.UPDATE_GOLDEN === "1";
const TESTDATA = join(dirname(fileURLToPath(import.meta.url)), "testdata");

/** One of each kind that Envoy tells apart. */
const RUNTIME = {
  "upstream.healthy_panic_threshold": "0",
  "envoy.reloadable_features.x": "false",
  "name.of-it": "a b",
};
const ranker = rankerFixture();
const CASES: Readonly<Record<string, StateFixture>> = {
  "split-fallback-shadow": ranker,
  pinned: {
    models: [{ name: "echo", slo: { deadlineMs: 500 }, allowedTenants: ["acme"] }],
    versions: { "echo:1": STAGE_PRODUCTION, "echo:2": STAGE_STAGING },
    ready: { "echo:1": ["127.0.0.1:19000"], "echo:2": ["[::1]:19010"] },
    gateways: [
      { name: "default", httpAddress: "127.0.0.1", httpPort: 8080, maxRequestBytes: 1_048_576n, runtime: RUNTIME },
    ],
  },
  "no-endpoints": { ...ranker, ready: {} },
  tls: {
    ...ranker,
    gateways: [
      {
        name: "default",
        httpAddress: "127.0.0.1",
        httpPort: 8080,
        tlsPort: 8443,
        tlsCertificateFile: "/etc/servemesh/gateway.pem",
        tlsPrivateKeyFile: "/etc/servemesh/gateway.key",
      },
    ],
  },
  mtls: { ...ranker, ready: { ...ranker.ready, "ranker:41": ["127.0.0.1:19000", "tls 10.1.0.7:19000"] } },
  "two-models-one-bad": {
    ...ranker,
    models: [...(ranker.models ?? []), { name: "echo", slo: { deadlineMs: 500 }, allowedTenants: ["*"] }],
    versions: { ...ranker.versions, "echo:1": STAGE_STAGING },
    aliases: [...(ranker.aliases ?? []), { model: "echo", alias: "prod", split: [{ version: 1n, weight: 1 }] }],
  },
};

/** Another one in each run: no file shows it. Secrets are in secrets.test.ts. */
const CERTIFICATES = new Map([["default", secretPairOf(selfSignedCertificate())]]);

const IDENTITIES = new Map([
  ["default", { pair: secretPairOf(selfSignedCertificate()), authorities: "", trustDomain: "mesh" }],
]);

/** JSON has no 64-bit integers, and bytes are read best in hex. */
function plainly(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  const isBytes =
    typeof value === "object" && value !== null && "type" in value && value.type === "Buffer" && "data" in value;
  return isBytes ? Buffer.from(value.data as number[]).toString("hex") : value;
}

function readable<T>(
  codec: { $type: string; encode(message: T): { finish(): Uint8Array } },
  messages: readonly T[],
): unknown {
  return messages.map((message) => messageToReadableJson(codec.$type, codec.encode(message).finish()));
}

describe.each(Object.entries(CASES))("translate %s", (name, fixture) => {
  const plan = planMesh(stateOf(fixture));
  const resources = translate(plan, {
    gate: { module: Buffer.from("\0asm"), config: Buffer.from("config") },
    transcoderDescriptor: Buffer.from("descriptors"),
    ...(name === "mtls" ? { identities: IDENTITIES } : {}),
    ...(name === "tls" ? { accessLogPath: "/var/log/servemesh/access.ndjson", secrets: CERTIFICATES } : {}),
  });
  const files: Readonly<Record<string, unknown>> = {
    plan,
    clusters: readable(Cluster, resources.clusters),
    endpoints: readable(ClusterLoadAssignment, resources.endpoints),
    listeners: readable(Listener, resources.listeners),
    extensions: readable(TypedExtensionConfig, resources.extensions),
    runtimes: readable(
      Runtime,
      (resources.runtimes ?? []).map(({ runtime }) => runtime),
    ),
    scopes: readable(ScopedRouteConfiguration, resources.scopes),
    routes: readable(RouteConfiguration, resources.routes),
  };

  it.each(Object.keys(files))("gives the known %s", (file) => {
    const path = join(TESTDATA, name, `${file}.json`);
    // Through text once, so that absent and undefined fields are the same.
    const text = JSON.stringify(files[file], plainly, 2);
    if (UPDATE) {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, `${text}\n`);
    }
    expect(JSON.parse(text)).toEqual(JSON.parse(readFileSync(path, "utf8")));
  });

  it("opens every nested message, so that the files hide nothing", () => {
    expect(JSON.stringify(files, plainly)).not.toContain("@problem");
  });
});
