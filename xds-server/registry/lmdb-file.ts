import { chmodSync, existsSync, mkdirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { type Database, open, type RootDatabase, type RootDatabaseOptionsWithPath } from "lmdb";
import { lmdbHeaderProblem } from "./lmdb-header.js";
import { isAlive, ownIdentity, type ProcessIdentity } from "./process-identity.js";
import type { LeaseId } from "./store.js";

/** An item as it lies in the file; revisions are decimal texts because JSON has no 64-bit numbers. */
export interface StoredItem {
  readonly value: string;
  readonly created: string;
  readonly modified: string;
  readonly lease?: LeaseId;
}

/** The open file. Keys of `items` are registry keys. */
export interface LmdbFile {
  readonly root: RootDatabase;
  readonly items: Database<StoredItem, string>;
  /** Time to live in ms of each lease that may have keys. */
  readonly leases: Database<number, LeaseId>;
  /** `revision`, `format` and `owner`. */
  readonly meta: Database<unknown, string>;
}

/** Layout of the file; a later one is refused rather than misread. */
const FORMAT = 1;
const FILE_MODE = 0o600;

/** LMDB shares one environment per path inside a process, so a second opening has to be seen here. */
const openedHere = new Set<string>();

/**
 * Opens, or makes, the database in a folder of its own and claims it for this process.
 * @throws Error with one sentence that names the path, when it is in use, unreadable or of a later format
 */
export function openLmdbFile(folder: string): LmdbFile {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const path = join(realpathSync(folder), "registry.mdb");
    if (openedHere.has(path)) throw new Error("it is open in this process already");
    const problem = lmdbHeaderProblem(path);
    if (problem !== undefined) throw new Error(problem);
    const file = openDatabases(path);
    try {
      file.root.transactionSync(() => claim(file));
    } catch (error) {
      void file.root.close();
      throw error;
    }
    openedHere.add(path);
    return file;
  } catch (error) {
    throw new Error(`store ${folder} cannot be opened: ${(error as Error).message}`);
  }
}

/** Gives the file up, so that another process may open it. */
export async function closeLmdbFile(file: LmdbFile, folder: string): Promise<void> {
  await file.meta.remove("owner");
  await file.root.close();
  openedHere.delete(join(realpathSync(folder), "registry.mdb"));
}

function openDatabases(path: string): LmdbFile {
  // `permissionsMode` is the mode that mdb_env_open gives to new files; lmdb's typings leave it out.
  const options: RootDatabaseOptionsWithPath & { permissionsMode: number } = {
    path,
    noSubdir: true,
    maxDbs: 8,
    permissionsMode: FILE_MODE,
    // A promise that is kept means: on disk. Registry writes are few, so their price does not matter.
    overlappingSync: false,
  };
  const root = open(options);
  for (const name of [path, `${path}-lock`]) if (existsSync(name)) chmodSync(name, FILE_MODE);
  return {
    root,
    items: root.openDB<StoredItem, string>("items", { encoding: "json" }),
    leases: root.openDB<number, LeaseId>("leases", { encoding: "json" }),
    meta: root.openDB<unknown, string>("meta", { encoding: "json" }),
  };
}

/**
 * Runs inside a write transaction, of which LMDB allows one at a time over all processes. A claim of a process that has
 * ended is void, so nothing has to be cleaned up after a crash.
 */
function claim({ meta }: LmdbFile): void {
  const format = meta.get("format") ?? FORMAT;
  if (format !== FORMAT) {
    throw new Error(`its format is ${format}, but this program reads ${FORMAT}; use the program that wrote it`);
  }
  const owner = meta.get("owner") as ProcessIdentity | undefined;
  if (owner !== undefined && owner.pid !== process.pid && isAlive(owner)) {
    throw new Error(`process ${owner.pid} uses it; stop that process or choose another folder`);
  }
  meta.putSync("format", FORMAT);
  meta.putSync("owner", ownIdentity());
}
