import { closeSync, constants, fstatSync, openSync, readFileSync, realpathSync, statSync } from "node:fs";

/** A file as it lies there now. */
export interface FileLook {
  /** Another one when the path leads elsewhere, or when content or mode may have changed. */
  readonly identity: string;
  /** Epoch ms of the last change of the content. */
  readonly changedAtMs: number;
  /** Permission bits. */
  readonly mode: number;
}

export interface FileContent extends FileLook {
  readonly bytes: Buffer;
}

/** The files that certificates are read from. What it throws says what is wrong with the file and nothing of its content. */
export interface FileAccess {
  look(path: string): FileLook;
  read(path: string): FileContent;
}

/** A chain of ten certificates has 20 KiB. */
const BYTES_MAX = 1024 * 1024;

/**
 * Files of this machine. They should lie on a local disk: the control plane waits while they are read.
 */
export const machineFiles: FileAccess = {
  look: (path) => inWords(() => lookOf(realpathSync(path), statSync(path, { bigint: true }))),
  read: (path) =>
    inWords(() => {
      const resolved = realpathSync(path);
      // A pipe without a writer would stop the control plane here.
      const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
      try {
        const stat = fstatSync(file, { bigint: true });
        if (!stat.isFile()) throw new Error("is not a file");
        if (stat.size > BYTES_MAX) throw new Error(`has more than ${BYTES_MAX} bytes`);
        return { ...lookOf(resolved, stat), bytes: readFileSync(file) };
      } finally {
        closeSync(file);
      }
    }),
};

interface Stat {
  readonly dev: bigint;
  readonly ino: bigint;
  readonly mode: bigint;
  readonly size: bigint;
  readonly mtimeNs: bigint;
}

function lookOf(resolved: string, { dev, ino, mode, size, mtimeNs }: Stat): FileLook {
  return {
    identity: [resolved, dev, ino, mode, size, mtimeNs].join(" "),
    changedAtMs: Number(mtimeNs / 1_000_000n),
    mode: Number(mode & 0o777n),
  };
}

function inWords<T>(act: () => T): T {
  try {
    return act();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new Error(code === undefined ? message : (WORDS[code] ?? `cannot be read (${code})`));
  }
}

const WORDS: Readonly<Record<string, string>> = {
  ENOENT: "does not exist on the control plane's machine",
  EACCES: "may not be read by the control plane",
  EISDIR: "is not a file",
  ENXIO: "is not a file",
};
