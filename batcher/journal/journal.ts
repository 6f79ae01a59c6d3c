import { mkdirSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { Record as JournalRecord } from "@servemesh/proto/gen/mesh/servemesh/journal/v1/journal.js";
import type { Logger } from "../platform/logger.js";
import { recordBytes } from "./journal-record.js";

/** Where records go. Never blocks and never throws: a journal that cannot keep up loses records and counts them. */
export interface Journal {
  write(record: JournalRecord): void;
  /** Writes out what is buffered and closes the file. */
  close(): Promise<void>;
}

/** The journal of a batcher without `--journal-dir`. */
export const NO_JOURNAL: Journal = { write: () => {}, close: () => Promise.resolve() };

export interface JournalOptions {
  /** `<journal-dir>/<replica>`; created when missing. */
  readonly directory: string;
  /** Part of the file's name, so that a restart never appends to an old file. */
  readonly startedAt: Date;
  /** Records waiting in memory. */
  readonly maxBufferedBytes: number;
  /** Of this process's file. */
  readonly maxFileBytes: number;
  readonly logger: Logger;
  readonly written: (records: number) => void;
  readonly dropped: (records: number) => void;
}

/** Records written per turn, so that serialising them never holds the event loop for long. */
const MAX_CHUNK_RECORDS = 64;

/**
 * One NDJSON file per process: a line is the proto3 JSON of servemesh.journal.v1.Record. Records are serialised and
 * written off the requests' path, one chunk at a time.
 * @throws Error when the directory cannot be made
 */
export function createFileJournal(options: JournalOptions): Journal {
  mkdirSync(options.directory, { recursive: true, mode: 0o700 });
  return new FileJournal(options);
}

class FileJournal implements Journal {
  private buffer: JournalRecord[] = [];
  private bufferedBytes = 0;
  private fileBytes = 0;
  private file: FileHandle | undefined;
  private writing: Promise<void> | undefined;
  private closed = false;
  private complained = false;

  constructor(private readonly options: JournalOptions) {}

  write(record: JournalRecord): void {
    const bytes = recordBytes(record);
    const full =
      this.bufferedBytes + bytes > this.options.maxBufferedBytes || this.fileBytes >= this.options.maxFileBytes;
    if (this.closed || full) {
      this.options.dropped(1);
      return;
    }
    this.buffer.push(record);
    this.bufferedBytes += bytes;
    this.writing ??= this.drain();
  }

  async close(): Promise<void> {
    this.closed = true;
    while (this.writing !== undefined) await this.writing;
    await this.file?.close();
    this.file = undefined;
  }

  private async drain(): Promise<void> {
    // The turn in which the first record came belongs to its request.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.buffer.length > 0) {
      const chunk = this.buffer.splice(0, MAX_CHUNK_RECORDS);
      try {
        await this.append(chunk);
        this.options.written(chunk.length);
      } catch (error) {
        this.options.dropped(chunk.length);
        this.complain(error);
      }
      for (const record of chunk) this.bufferedBytes -= recordBytes(record);
    }
    this.writing = undefined;
  }

  private async append(chunk: readonly JournalRecord[]): Promise<void> {
    const lines = chunk.map((record) => `${JSON.stringify(JournalRecord.toJSON(record))}\n`).join("");
    this.file ??= await open(join(this.options.directory, this.fileName()), "a", 0o600);
    const { bytesWritten } = await this.file.write(lines);
    this.fileBytes += bytesWritten;
  }

  private fileName(): string {
    return `${this.options.startedAt.toISOString().replaceAll(":", "-")}.ndjson`;
  }

  /** Once: a full disk fails every write. */
  private complain(error: unknown): void {
    if (this.complained) return;
    this.complained = true;
    this.options.logger.error(
      { err: error, directory: this.options.directory },
      "the journal cannot be written; records are lost",
    );
  }
}
