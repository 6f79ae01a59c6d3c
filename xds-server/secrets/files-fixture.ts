import type { FileAccess, FileContent, FileLook } from "./file-access.js";

/** Files in memory. */
export class PretendedFiles implements FileAccess {
  /** Runs after each read, for what happens meanwhile. */
  afterRead: (path: string) => void = () => undefined;
  reads = 0;
  readonly #files = new Map<string, FileContent>();
  #writes = 0;

  write(path: string, content: string, mode = 0o600, changedAtMs = 0): void {
    this.#writes += 1;
    this.#files.set(path, { bytes: Buffer.from(content), mode, changedAtMs, identity: `${path} ${this.#writes}` });
  }

  /** Another content under the same time stamp, as a write within the resolution of the file system. */
  writeUnseen(path: string, content: string): void {
    this.#files.set(path, { ...this.read(path), bytes: Buffer.from(content) });
  }

  remove(path: string): void {
    this.#files.delete(path);
  }

  look(path: string): FileLook {
    const file = this.#files.get(path);
    if (file === undefined) throw new Error("does not exist");
    return file;
  }

  read(path: string): FileContent {
    const file = this.look(path) as FileContent;
    this.reads += 1;
    this.afterRead(path);
    return file;
  }
}
