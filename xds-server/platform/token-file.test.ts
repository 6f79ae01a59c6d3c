import { randomBytes } from "node:crypto";
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isSameToken, readOrCreateToken, readToken } from "./token-file.js";

let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "servemesh-token-"));
  path = join(folder, "var", "token");
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("a token file", () => {
  it("is made once, private, with a random token", () => {
    const token = readOrCreateToken(path, randomBytes);
    expect(token).toMatch(/^sm_admin_[\w-]{43}$/);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readFileSync(path, "utf8")).toBe(`${token}\n`);
    expect(readOrCreateToken(path, randomBytes)).toBe(token);
    expect(readToken(path)).toBe(token);
    expect(readOrCreateToken(join(folder, "other"), randomBytes)).not.toBe(token);
  });

  it.each([0o640, 0o604, 0o622, 0o777])("of mode %o is refused with the remedy", (mode) => {
    readOrCreateToken(path, randomBytes);
    chmodSync(path, mode);
    expect(() => readToken(path)).toThrow(
      `has mode 0${mode.toString(8)}, so others can read it; run chmod 600 ${path}`,
    );
  });

  it.each(["", "short", "two words that are long enough", "x".repeat(300)])("that holds %j is refused", (content) => {
    readOrCreateToken(path, randomBytes);
    writeFileSync(path, content);
    expect(() => readToken(path)).toThrow(`token file ${path} does not hold one token`);
  });

  it("that is absent, or a folder, is refused by its path", () => {
    expect(() => readToken(join(folder, "none"))).toThrow(`token file ${join(folder, "none")} cannot be read`);
    expect(() => readToken(folder)).toThrow(`token file ${folder} is not a file`);
    writeFileSync(join(folder, "file"), "");
    expect(() => readOrCreateToken(join(folder, "file", "token"), randomBytes)).toThrow("ENOTDIR");
  });
});

describe("isSameToken", () => {
  it("tells tokens apart, whatever their lengths", () => {
    expect(isSameToken("abc", "abc")).toBe(true);
    for (const other of ["", "ab", "abcd", "abd"]) expect(isSameToken(other, "abc")).toBe(false);
  });
});
