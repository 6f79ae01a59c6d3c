import { createHash, timingSafeEqual } from "node:crypto";
import { chmodSync, closeSync, fstatSync, mkdirSync, openSync, readFileSync, writeSync } from "node:fs";
import { dirname } from "node:path";

/** What may be in a token file: one line of at least 128 bits in base64url, with or without a prefix. */
const TOKEN = /^[A-Za-z0-9_-]{22,256}$/;
const TOKEN_BYTES = 32;

/**
 * Reads the bearer token of a file, or makes both when the file is absent. The file has mode 0600, so that the token is
 * as private as the user who started the process.
 * @param random source of secure random bytes
 * @throws Error with one sentence that names the path and the remedy
 */
export function readOrCreateToken(path: string, random: (size: number) => Uint8Array): string {
  const token = `sm_admin_${Buffer.from(random(TOKEN_BYTES)).toString("base64url")}`;
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    // "wx" makes the file only if there is none, so two starters cannot both believe in their own token.
    const file = openSync(path, "wx", 0o600);
    writeSync(file, `${token}\n`);
    closeSync(file);
    chmodSync(path, 0o600);
    return token;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return readToken(path);
    throw new Error(`token file ${path} cannot be created: ${(error as Error).message}`);
  }
}

/**
 * Reads the bearer token of an existing file.
 * @throws Error with one sentence that names the path and the remedy
 */
export function readToken(path: string): string {
  let file: number;
  try {
    file = openSync(path, "r");
  } catch (error) {
    throw new Error(`token file ${path} cannot be read: ${(error as Error).message}`);
  }
  try {
    const stat = fstatSync(file);
    if (!stat.isFile()) throw new Error(`token file ${path} is not a file; name the file that holds the token`);
    const mode = stat.mode & 0o777;
    if ((mode & 0o077) !== 0) {
      throw new Error(
        `token file ${path} has mode 0${mode.toString(8)}, so others can read it; run chmod 600 ${path} and replace the token`,
      );
    }
    const token = readFileSync(file, "utf8").trim();
    if (!TOKEN.test(token)) {
      throw new Error(
        `token file ${path} does not hold one token of at least 22 base64url characters; delete it to get a new one`,
      );
    }
    return token;
  } finally {
    closeSync(file);
  }
}

/** Compares in a time that tells nothing about where they differ, nor about the length of the right one. */
export function isSameToken(given: string, expected: string): boolean {
  return timingSafeEqual(digest(given), digest(expected));
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
