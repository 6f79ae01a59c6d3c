import type { HeaderList, HeaderMap } from "./header-map.js";
import { misuse } from "./host-errors.js";

/** An answer that the filter gave by itself. */
export interface LocalReply {
  readonly httpStatus: number;
  /** -1 lets the host derive it from the HTTP status. */
  readonly grpcStatus: number;
  readonly details: string;
  readonly headers: HeaderList;
  readonly body: string;
}

/** Result codes of data callbacks. */
export const BODY = { continue: 0, stopAndBuffer: 1, stopAndWatermark: 2, stopNoBuffer: 3 } as const;

/** One direction of a stream: what the filter may look at, and what it has let pass. */
export class Direction {
  headers: HeaderMap | undefined;
  trailers: HeaderMap | undefined;
  /** The filter holds the headers back. */
  held = false;
  /** Bytes that the filter sees in its body callback. */
  buffer: Buffer = Buffer.alloc(0);
  /** Bytes that have left the filter. */
  passed: Buffer[] = [];
  ended = false;

  /** Takes the result of a body callback. */
  settleBody(action: number, endOfStream: boolean): void {
    if (action === BODY.continue) {
      this.held = false;
      this.passed.push(this.buffer);
      this.buffer = Buffer.alloc(0);
      this.ended = endOfStream;
    } else if (action === BODY.stopNoBuffer) this.buffer = Buffer.alloc(0);
  }

  /** As Envoy's buffers: all of it, in front of it or behind it. */
  replace(start: number, length: number, bytes: Buffer): void {
    if (start === 0 && length === 0) this.buffer = Buffer.concat([bytes, this.buffer]);
    else if (start === 0 && length >= this.buffer.length) this.buffer = bytes;
    else if (start >= this.buffer.length) this.buffer = Buffer.concat([this.buffer, bytes]);
    else
      misuse(
        `set_buffer_bytes(${start}, ${length}) on ${this.buffer.length} bytes: only all, front and end can be set`,
      );
  }
}

/** What the host knows of one stream. */
export class StreamState {
  readonly request = new Direction();
  readonly response = new Direction();
  reply: LocalReply | undefined;

  constructor(readonly id: number) {}
}
