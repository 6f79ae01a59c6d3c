import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { machineFiles } from "./file-access.js";

let folder = "";
let path = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "servemesh-secrets-"));
  path = join(folder, "tls.key");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const identity = (): string => machineFiles.look(path).identity;

describe("machineFiles", () => {
  it("reads a file with its mode and time", () => {
    writeFileSync(path, "content", { mode: 0o600 });
    utimesSync(path, 1_700_000_000, 1_700_000_000);
    const { identity: known } = machineFiles.look(path);
    const file = { bytes: Buffer.from("content"), mode: 0o600, changedAtMs: 1_700_000_000_000, identity: known };
    expect(machineFiles.read(path)).toEqual(file);
  });

  it("has another identity after a write, a rename and a change of mode", () => {
    writeFileSync(path, "one", { mode: 0o600 });
    const seen = [identity()];
    writeFileSync(path, "four");
    seen.push(identity());
    writeFileSync(`${path}.new`, "four", { mode: 0o600 });
    renameSync(`${path}.new`, path);
    seen.push(identity());
    chmodSync(path, 0o640);
    seen.push(identity());
    expect(new Set(seen).size).toBe(seen.length);
  });

  it("has another identity when a link above it leads elsewhere, as in a projected volume of Kubernetes", () => {
    for (const version of ["..1", "..2"]) {
      mkdirSync(join(folder, version));
      writeFileSync(join(folder, version, "tls.key"), "same", { mode: 0o600 });
      utimesSync(join(folder, version, "tls.key"), 1_700_000_000, 1_700_000_000);
    }
    symlinkSync("..1", join(folder, "..data"));
    symlinkSync(join("..data", "tls.key"), path);
    const before = identity();
    expect(identity()).toBe(before);
    symlinkSync("..2", join(folder, "..data_tmp"));
    renameSync(join(folder, "..data_tmp"), join(folder, "..data"));
    expect(identity()).not.toBe(before);
    expect(machineFiles.read(path).identity).toBe(identity());
  });

  it("says what is wrong with what it cannot read, and waits for nobody", () => {
    expect(() => machineFiles.look(path)).toThrow(/^does not exist on the control plane's machine$/);
    expect(() => machineFiles.read(path)).toThrow(/^does not exist on the control plane's machine$/);
    expect(() => machineFiles.read(folder)).toThrow(/^is not a file$/);
    execFileSync("mkfifo", [path]);
    expect(() => machineFiles.read(path)).toThrow(/^is not a file$/);
    expect(() => machineFiles.read("/dev/zero")).toThrow(/^is not a file$/);
    rmSync(path);
    writeFileSync(path, Buffer.alloc(1024 * 1024 + 1));
    expect(() => machineFiles.read(path)).toThrow(/^has more than 1048576 bytes$/);
    symlinkSync("loop", join(folder, "loop"));
    expect(() => machineFiles.read(join(folder, "loop"))).toThrow(/^cannot be read \(ELOOP\)$/);
  });
});
