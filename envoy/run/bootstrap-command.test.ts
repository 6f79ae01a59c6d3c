import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TestAuthority, TestMeshFolder } from "@servemesh/proto/testing/mesh-certificates";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { runBootstrapCommand } from "./bootstrap-command.js";

let folder: string;
let printed: string;

beforeEach(() => {
  folder = join(mkdtempSync(join(tmpdir(), "servemesh-bootstrap-")), "edge-1");
  printed = "";
  vi.spyOn(process.stderr, "write").mockImplementation((text) => {
    printed += String(text);
    return true;
  });
});

afterEach(() => {
  vi.restoreAllMocks();
  rmSync(join(folder, ".."), { recursive: true, force: true });
});

const run = (...flags: string[]): string => runBootstrapCommand(["--node-id", "edge-1", "--out", folder, ...flags]);
const bootstrap = (): object => JSON.parse(readFileSync(join(folder, "bootstrap.json"), "utf8"));

describe("servemesh-bootstrap", () => {
  it("writes the bootstrap of a gateway beside the control plane, and says how to start it", () => {
    expect(run()).toContain(`envoy --config-path ${join(folder, "bootstrap.json")}`);
    expect(bootstrap()).toMatchObject({ node: { id: "edge-1", cluster: "gateway" } });
    expect(existsSync(join(folder, "mesh-identity.json"))).toBe(false);
  });

  it("takes role and labels", () => {
    run("--role", "sidecar", "--label", "app=shop", "--label", "region=eu=1");
    const labels = { app: "shop", region: "eu=1" };
    expect(bootstrap()).toMatchObject({ node: { cluster: "sidecar", metadata: { labels } } });
  });

  it("reaches a control plane elsewhere with mutual TLS, in the trust domain of its own certificate", async () => {
    const authority = await TestAuthority.create();
    const own = new TestMeshFolder().write(await authority.issue(["spiffe://prod/gateway/edge-1"]), authority.pem);
    const tls = ["--tls-certificate", own.certificate, "--tls-key", own.privateKey, "--tls-ca", own.authorities];
    run("--control-plane", "cp.example:18000", ...tls);
    expect(readFileSync(join(folder, "mesh-authorities.json"), "utf8")).toContain("spiffe://prod/control-plane");
    for (const file of ["mesh-identity.json", "mesh-authorities.json"]) {
      expect(JSON.stringify(bootstrap())).toContain(JSON.stringify(join(folder, file)));
      // Envoy takes nothing of a secrets file that holds several.
      expect(JSON.parse(readFileSync(join(folder, file), "utf8")).resources).toHaveLength(1);
    }
    own.remove();
    expect(() => run("--control-plane", "cp.example:18000", ...tls)).toThrow("--tls-certificate: ");
  });

  it.each([
    [["--control-plane", "10.0.0.1:18000"], '--control-plane: "10.0.0.1" is not a loopback address, so give --tls'],
    [["--tls-key", "a"], "--tls-certificate, --tls-key, --tls-ca: give all three"],
    [["--control-plane", "x"], "it must be host:port"],
    [["--admin-port", "0"], "it must be a port"],
    [["--label", "x"], "it must be key=value"],
    [["--role", "edge"], "Allowed choices are gateway, sidecar"],
  ])("refuses %j and writes nothing", (flags, words) => {
    expect(() => run(...flags)).toThrow();
    expect(printed).toContain(words);
    expect(existsSync(folder)).toBe(false);
  });
});
