import { proxy_send_local_response } from "./host-functions";
import { Span } from "./span";

const HEADERS_BYTES: usize = 2048;
const MAX_HEADERS: u32 = 16;

/**
 * An answer by the filter itself. The caller must then return `HeadersAction.Stop` (or `BodyAction.StopNoBuffer`) and not
 * answer the stream again. The answer passes the filter's own response callbacks.
 *
 * Towards gRPC callers Envoy sends HTTP 200, `grpc-status`, our headers, and the body as `grpc-message`: keep it short and
 * plain. One builder serves all: `begin`, `header`…, `send`. Headers beyond 16 or 2 KiB are left out.
 */
@unmanaged
export class LocalResponse {
  private block: usize = 0;
  private count: u32 = 0;
  private cursor: usize = 0;

  begin(): void {
    if (this.block === 0) this.block = heap.alloc(HEADERS_BYTES);
    this.count = 0;
    // Texts start after the room for all lengths and are moved down in `send`.
    this.cursor = this.block + 4 + MAX_HEADERS * 8;
  }

  /** `name` in lower case. */
  header(name: Span, value: Span): void {
    const room = this.block + HEADERS_BYTES - this.cursor;
    if (this.count === MAX_HEADERS || <usize>name.length + <usize>value.length + 2 > room) return;
    const lengths = this.block + 4 + (<usize>this.count << 3);
    store<u32>(lengths, name.length);
    store<u32>(lengths, value.length, 4);
    this.text(name);
    this.text(value);
    this.count++;
  }

  private text(text: Span): void {
    memory.copy(this.cursor, text.pointer, text.length);
    store<u8>(this.cursor + text.length, 0);
    this.cursor += text.length + 1;
  }

  /** `details` shows in the access log as %RESPONSE_CODE_DETAILS%. */
  send(httpStatus: u32, grpcStatus: i32, details: Span, body: usize, bodyLength: u32): void {
    const texts = this.block + 4 + MAX_HEADERS * 8;
    const textBytes = this.cursor - texts;
    const packed = this.block + 4 + (<usize>this.count << 3);
    store<u32>(this.block, this.count);
    // The host wants an exact block: one byte too many and it takes no header at all.
    memory.copy(packed, texts, textBytes);
    const length = <u32>(packed + textBytes - this.block);
    proxy_send_local_response(
      httpStatus, details.pointer, details.length, body, bodyLength, this.block, length, grpcStatus,
    );
  }
}
