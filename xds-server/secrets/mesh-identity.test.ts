import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { TestAuthority, TestMeshFolder } from "@servemesh/proto/testing/mesh-certificates";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { WatchedMeshIdentity } from "./mesh-identity.js";

let authority: TestAuthority;
let folder: TestMeshFolder;
const time = { wallMs: 0 };

beforeEach(async () => {
  authority = await TestAuthority.create();
  folder = new TestMeshFolder().write(await authority.issue(["spiffe://mesh/group/edge"]), authority.pem);
  time.wallMs = Date.now();
});

afterEach(() => folder.remove());

function watched(): WatchedMeshIdentity {
  const files = {
    certificateFile: folder.certificate,
    privateKeyFile: folder.privateKey,
    authoritiesFile: folder.authorities,
  };
  return new WatchedMeshIdentity(files, {
    gateway: "edge",
    wallMs: () => time.wallMs,
    logger: { info: () => undefined },
  });
}

describe("the mesh identity of a group", () => {
  it("is what its files hold, with the trust domain of its certificate", () => {
    const identity = watched();
    expect(identity.inForce).toMatchObject({ authorities: authority.pem, trustDomain: "mesh" });
    expect(identity.findings()).toEqual([]);
  });

  it("stays the same object while the files say the same, and follows them", async () => {
    const identity = watched();
    const first = identity.inForce;
    identity.look();
    expect(identity.inForce).toBe(first);
    folder.write(await authority.issue(["spiffe://mesh/group/edge"]), authority.pem);
    identity.look();
    expect(identity.inForce?.pair.serial).not.toBe(first?.pair.serial);
  });

  it("stays in force when the files go bad, and comes when they become good", async () => {
    const identity = watched();
    const first = identity.inForce;
    writeFileSync(folder.certificate, "x");
    identity.look();
    identity.look();
    expect(identity.inForce).toBe(first);
    expect(identity.findings()).toEqual([
      {
        severity: "error",
        subject: "gateways/edge",
        message: `mesh_certificate_file: "${folder.certificate}" holds no certificate in PEM; what was read before stays`,
      },
    ]);
    const late = watched();
    expect(late.inForce).toBeUndefined();
    expect(late.findings()).toEqual([
      {
        severity: "error",
        subject: "gateways/edge",
        message: `mesh_certificate_file: "${folder.certificate}" holds no certificate in PEM; the group reaches no batcher that speaks TLS`,
      },
    ]);
    folder.write(await authority.issue(["spiffe://mesh/group/edge"]), authority.pem);
    late.look();
    expect(late.inForce?.trustDomain).toBe("mesh");
    expect(late.findings()).toEqual([]);
  });

  it("is none of a batcher or a control plane", async () => {
    folder.write(await authority.issue(["spiffe://mesh/batcher/ranker"]), authority.pem);
    const identity = watched();
    expect(identity.inForce).toBeUndefined();
    expect(identity.findings()[0]?.message).toContain(
      "is for spiffe://mesh/batcher/ranker, but gateways need one for their group",
    );
  });

  it("is not taken with a key that Envoy does not take", async () => {
    const identity = watched();
    const first = identity.inForce;
    const weak = generateKeyPairSync("rsa", { modulusLength: 1024 });
    writeFileSync(folder.privateKey, weak.privateKey.export({ type: "pkcs8", format: "pem" }));
    identity.look();
    identity.look();
    expect(identity.inForce).toBe(first);
    expect(identity.findings()[0]?.message).toMatch(/^mesh_private_key_file: .*; what was read before stays$/);
  });
});
