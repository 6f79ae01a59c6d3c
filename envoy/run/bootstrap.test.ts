import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, describe, expect, it } from "vitest";
import { findEnvoy } from "./binaries.js";
import { createBootstrap } from "./bootstrap.js";
import { writeMeshSecrets } from "./bootstrap-tls.js";

const folder = mkdtempSync(join(tmpdir(), "servemesh-bootstrap-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const OPTIONS = { nodeId: "gateway-1", adminPort: 9901, controlPlane: { host: "127.0.0.1", port: 18_000 } };

const FILES = { certificate: "/tls/identity.pem", privateKey: "/tls/identity.key", authorities: "/tls/ca.pem" };

/** What Envoy itself says of a bootstrap. */
async function validate(name: string, bootstrap: object): Promise<string> {
  const file = join(folder, `${name}.json`);
  writeFileSync(file, JSON.stringify(bootstrap));
  try {
    const { stdout } = await promisify(execFile)(findEnvoy(), ["--mode", "validate", "-c", file, "-l", "error"]);
    return stdout;
  } catch (error) {
    return String(error);
  }
}

describe("createBootstrap", () => {
  it("is accepted by the real Envoy", async () => {
    expect(await validate("good", createBootstrap(OPTIONS))).toContain("OK");
  });

  it("would not be accepted with an unknown field, so the check above means something", async () => {
    expect(await validate("bad", { ...createBootstrap(OPTIONS), nosuchfield: 1 })).toContain("nosuchfield");
  });

  it("keeps the admin interface and the control plane on loopback", () => {
    const addresses = [...JSON.stringify(createBootstrap(OPTIONS)).matchAll(/"address":"([^"]+)"/g)].map((m) => m[1]);
    expect(addresses).toEqual(["127.0.0.1", "127.0.0.1"]);
  });

  it("says which group it belongs to, and is a gateway without labels by default", () => {
    expect(createBootstrap(OPTIONS)).toMatchObject({ node: { cluster: "gateway", metadata: { labels: {} } } });
    const labels = { app: "shop" };
    expect(createBootstrap({ ...OPTIONS, role: "sidecar", labels })).toMatchObject({
      node: { cluster: "sidecar", metadata: { labels } },
    });
  });

  it("with mutual TLS and a name in place of an address is accepted by the real Envoy", async () => {
    const secretFiles = writeMeshSecrets(folder, FILES, "mesh");
    const bootstrap = createBootstrap({ ...OPTIONS, controlPlane: { host: "cp.example", port: 18_000 }, secretFiles });
    expect(bootstrap).toMatchObject({ static_resources: { clusters: [{ type: "STRICT_DNS" }] } });
    expect(await validate("tls", bootstrap)).toContain("OK");
  });

  it("takes nobody for the control plane but the one of its trust domain", () => {
    const { authorities } = writeMeshSecrets(folder, FILES, "mesh");
    expect(JSON.parse(readFileSync(authorities, "utf8"))).toMatchObject({
      resources: [
        {
          validation_context: {
            match_typed_subject_alt_names: [{ san_type: "URI", matcher: { exact: "spiffe://mesh/control-plane" } }],
          },
        },
      ],
    });
  });

  it("reports its load to the control plane", () => {
    expect(createBootstrap(OPTIONS)).toMatchObject({
      cluster_manager: {
        load_stats_config: { api_type: "GRPC", grpc_services: [{ envoy_grpc: { cluster_name: "control-plane" } }] },
      },
      static_resources: { clusters: [{ name: "control-plane" }] },
    });
  });

  it("comes back to a restarted control plane within a second", () => {
    expect(createBootstrap(OPTIONS)).toMatchObject({
      node: { id: "gateway-1" },
      dynamic_resources: {
        ads_config: {
          api_type: "DELTA_GRPC",
          grpc_services: [
            { envoy_grpc: { retry_policy: { retry_back_off: { base_interval: "0.1s", max_interval: "1s" } } } },
          ],
        },
      },
    });
  });
});
