import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createCommand, readConfig } from "./config.js";

const BASE = ["--model", "ranker", "--version", "41", "--listen", "127.0.0.1:0", "--triton", "127.0.0.1:8001"];
const TLS = ["--tls-certificate", "own.pem", "--tls-key", "own.key", "--tls-ca", "ca.pem"];
const read = (...args: string[]) =>
  readConfig(
    createCommand()
      .exitOverride()
      .configureOutput({ writeErr: () => {} })
      .parse(args, { from: "user" }),
    7,
  );

describe("readConfig", () => {
  it("reads who the batcher is and its limits", () => {
    const { sidecar, logLevel } = read(
      ...BASE,
      "--control-plane",
      "localhost:18000",
      "--max-queue-bytes",
      "1000",
      "--drain-ms",
      "5",
    );
    expect(sidecar).toMatchObject({
      model: "ranker",
      version: 41n,
      replicaId: "ranker-41-7",
      controlPlane: { host: "localhost", port: 18000 },
      limits: { maxWaitingBytes: 1000, drainMs: 5 },
    });
    expect(logLevel).toBe("info");
  });

  it("reads a record for the direct mode", () => {
    const directory = mkdtempSync(join(tmpdir(), "servemesh-spec-"));
    const path = join(directory, "spec.json");
    writeFileSync(
      path,
      JSON.stringify({
        model: "echo",
        version: "3",
        serving: { inputs: [{ name: "x", datatype: "FP32", shape: ["-1", "16"] }] },
      }),
    );
    const { sidecar } = read("--listen", "127.0.0.1:0", "--triton", "127.0.0.1:1", "--spec", path);
    expect(sidecar).toMatchObject({ model: "echo", version: 3n });
    expect(sidecar.record?.serving?.inputs[0]?.shape).toEqual([-1n, 16n]);
    expect(() => read(...BASE, "--spec", path)).toThrow(/--spec: the record is for echo:3/);
    expect(() => read("--listen", "127.0.0.1:0", "--triton", "127.0.0.1:1", "--spec", join(directory, "no"))).toThrow(
      /--spec: .*ENOENT/,
    );
    rmSync(directory, { recursive: true });
  });

  it("may leave the machine with an identity, but for the model server", () => {
    const elsewhere = BASE.map((arg) => (arg === "127.0.0.1:0" ? "0.0.0.0:9000" : arg));
    const { sidecar } = read(...elsewhere, "--control-plane", "cp.example:1", "--advertise", "10.0.0.7:9000", ...TLS);
    expect(sidecar).toMatchObject({
      listen: { host: "0.0.0.0", port: 9000 },
      advertise: "10.0.0.7:9000",
      controlPlane: { host: "cp.example", port: 1 },
      tls: { certificate: "own.pem", privateKey: "own.key", authorities: "ca.pem" },
    });
    const awayFromTriton = BASE.map((arg) => (arg === "127.0.0.1:8001" ? "10.0.0.8:8001" : arg));
    expect(() => read(...awayFromTriton, "--control-plane", "cp.example:1", ...TLS)).toThrow(/--triton: "10.0.0.8"/);
  });

  it.each([
    [
      [...BASE, "--control-plane", "localhost:1", ...TLS.slice(0, 4)],
      /--tls-certificate, --tls-key, --tls-ca: give all/,
    ],
    [[...BASE, "--control-plane", "localhost:1", "--advertise", "10.0.0.7:1"], /--advertise: .*give --tls-certificate/],
    [[...BASE], /--control-plane, --spec: give exactly one/],
    [[...BASE.map((arg) => (arg === "41" ? "041" : arg)), "--control-plane", "localhost:1"], /--version: "041"/],
    [
      [...BASE.map((arg) => (arg === "ranker" ? "Ranker" : arg)), "--control-plane", "localhost:1"],
      /--model: "Ranker"/,
    ],
    [[...BASE, "--control-plane", "example.com:1"], /--control-plane: "example.com" is not a loopback host/],
    [[...BASE, "--control-plane", "localhost"], /--control-plane: "localhost" is not host:port/],
    [[...BASE, "--control-plane", "localhost:1", "--replica-id", "../x"], /--replica-id/],
    [[...BASE, "--control-plane", "localhost:1", "--log-level", "loud"], /--log-level: "loud" is not one of/],
    [[...BASE, "--control-plane", "localhost:1", "--max-queue-bytes", "-1"], /positive whole number/],
    [[...BASE, "--control-plane", "localhost:1", "--nonsense"], /unknown option/],
  ])("refuses %j", (args, message) => {
    expect(() => read(...args)).toThrow(message);
  });
});
