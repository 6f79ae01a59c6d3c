import { closeSync, fstatSync, openSync, readSync } from "node:fs";

/*
 * LMDB's data file begins with two meta pages, written in turn (lmdb.h, mdb.c: MDB_page, MDB_meta). Offsets within a
 * meta page on a 64-bit machine.
 */
const MAGIC_AT = 24;
const PAGE_SIZE_AT = 48;
const LAST_PAGE_AT = 144;
const TXN_AT = 152;
const META_BYTES = 160;
const MAGIC = 0xbeefc0de;

interface Meta {
  readonly pageSize: number;
  readonly lastPage: bigint;
  readonly txn: bigint;
}

/**
 * Looks whether a file is a whole LMDB file, because the library ends the process on one that is not.
 * @returns the problem in words, or undefined when the file is absent, empty or sound
 */
export function lmdbHeaderProblem(path: string): string | undefined {
  let file: number;
  try {
    file = openSync(path, "r");
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT" ? undefined : (error as Error).message;
  }
  try {
    const { size } = fstatSync(file);
    return size === 0 ? undefined : problemOf(file, size);
  } finally {
    closeSync(file);
  }
}

function problemOf(file: number, size: number): string | undefined {
  const first = readMeta(file, 0);
  if (first === undefined) return "registry.mdb is not an LMDB file; choose another folder or restore a backup";
  const second = readMeta(file, first.pageSize);
  const newest = second !== undefined && second.txn > first.txn ? second : first;
  const wanted = (newest.lastPage + 1n) * BigInt(newest.pageSize);
  if (second !== undefined && BigInt(size) >= wanted) return undefined;
  return `registry.mdb is cut short: it has ${size} bytes of ${wanted}; restore a backup`;
}

function readMeta(file: number, at: number): Meta | undefined {
  const bytes = Buffer.alloc(META_BYTES);
  if (readSync(file, bytes, 0, META_BYTES, at) < META_BYTES || bytes.readUInt32LE(MAGIC_AT) !== MAGIC) return undefined;
  const pageSize = bytes.readUInt32LE(PAGE_SIZE_AT);
  if (pageSize < 256 || pageSize > 65_536) return undefined;
  return { pageSize, lastPage: bytes.readBigUInt64LE(LAST_PAGE_AT), txn: bytes.readBigUInt64LE(TXN_AT) };
}
