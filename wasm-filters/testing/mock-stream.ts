import type { Guest } from "./guest.js";
import { type HeaderList, HeaderMap } from "./header-map.js";
import { misuse } from "./host-errors.js";
import type { HostState, Scope } from "./host-state.js";
import { BODY, type Direction, type LocalReply, StreamState } from "./stream-state.js";

const HEADERS = { continue: 0, stop: 1 } as const;

/** Where a request stands after a callback. */
export type Verdict = "held" | "passed" | "refused";

/** What has left the filter in one direction. */
export interface Passed {
  readonly headers: HeaderList;
  readonly body: Buffer;
  readonly ended: boolean;
}

/**
 * One stream through the filter, driven by the test in the order of HTTP: request headers, request body, response headers,
 * response body, close. Throws a HostMisuseError where the module breaks a rule, and an Error where the test does.
 */
export class MockStream {
  readonly #state: StreamState;
  #closed = false;

  constructor(
    id: number,
    private readonly host: HostState,
    private readonly guest: Guest,
    /** `allow_on_headers_stop_iteration` of Envoy's filter config. */
    private readonly allowsHeaderStop: boolean,
  ) {
    this.#state = new StreamState(id);
    if (guest.has("proxy_on_context_create")) this.#call("proxy_on_context_create", id, 1);
  }

  get id(): number {
    return this.#state.id;
  }

  /** The filter's own answer, if it gave one. */
  get reply(): LocalReply | undefined {
    return this.#state.reply;
  }

  /** What the next filter sees of the request. */
  get upstream(): Passed {
    return passedOf(this.#state.request);
  }

  /** What the client sees of the answer, the filter's own answer included. */
  get client(): Passed {
    return passedOf(this.#state.response);
  }

  requestHeaders(headers: HeaderList, endOfStream = false): Verdict {
    return this.#headers("request", headers, endOfStream);
  }

  requestBody(chunk: Uint8Array, endOfStream = false): Verdict {
    if (this.#state.reply) return "refused";
    return this.#body("request", chunk, endOfStream);
  }

  /** Ends the request with trailers. As in Envoy, they release headers and body that the filter still holds. */
  requestTrailers(trailers: HeaderList): Verdict {
    const { request } = this.#state;
    if (this.#state.reply) return "refused";
    if (!request.headers) throw new Error("the test sends request trailers before its headers");
    if (request.ended) throw new Error("the test sends request trailers after the end");
    request.trailers = new HeaderMap(trailers);
    const callback = "proxy_on_request_trailers";
    const action = this.#call(callback, this.id, trailers.length);
    if (action !== HEADERS.continue && action !== HEADERS.stop) misuse(`${callback} returns ${action}`);
    if (this.#state.reply) return this.#answered(callback, action === HEADERS.stop);
    if (action === HEADERS.stop) misuse(`${callback} stops at the end of the request: it hangs`);
    request.settleBody(BODY.continue, true);
    return "passed";
  }

  responseHeaders(headers: HeaderList, endOfStream = false): Verdict {
    return this.#headers("response", headers, endOfStream);
  }

  responseBody(chunk: Uint8Array, endOfStream = false): Verdict {
    return this.#body("response", chunk, endOfStream);
  }

  /** The stream is over, however far it came. */
  close(): void {
    if (this.#closed) throw new Error("the test closes a stream twice");
    for (const callback of ["proxy_on_log", "proxy_on_done", "proxy_on_delete"]) this.#call(callback, this.id);
    this.#closed = true;
  }

  #headers(phase: "request" | "response", headers: HeaderList, endOfStream: boolean): Verdict {
    const direction = this.#state[phase];
    if (direction.headers) throw new Error(`the test sends ${phase} headers twice`);
    direction.headers = new HeaderMap(headers);
    const hadReply = this.#state.reply !== undefined;
    const callback = `proxy_on_${phase}_headers`;
    const action = this.#call(callback, this.id, headers.length, Number(endOfStream));
    if (action !== HEADERS.continue && action !== HEADERS.stop) misuse(`${callback} returns ${action}`);
    if (this.#state.reply && !hadReply) return this.#answered(callback, action === HEADERS.stop);
    direction.held = action === HEADERS.stop;
    if (direction.held && endOfStream) misuse(`${callback} stops a stream that has no body: it hangs`);
    if (direction.held && !this.allowsHeaderStop) misuse(`${callback} stops without the flag that allows it: it hangs`);
    direction.ended = endOfStream;
    return direction.held ? "held" : "passed";
  }

  #body(phase: "request" | "response", chunk: Uint8Array, endOfStream: boolean): Verdict {
    const direction = this.#state[phase];
    if (!direction.headers) throw new Error(`the test sends a ${phase} body before its headers`);
    if (direction.ended) throw new Error(`the test sends a ${phase} body after its end`);
    direction.buffer = Buffer.concat([direction.buffer, chunk]);
    const hadReply = this.#state.reply !== undefined;
    const callback = `proxy_on_${phase}_body`;
    const action = this.#call(callback, this.id, direction.buffer.length, Number(endOfStream));
    if (!Object.values(BODY).includes(action as 0)) misuse(`${callback} returns ${action}`);
    if (this.#state.reply && !hadReply) return this.#answered(callback, action !== BODY.continue);
    direction.settleBody(action, endOfStream);
    if (action !== BODY.continue && endOfStream) misuse(`${callback} stops at the end of the body: the stream hangs`);
    return action === BODY.continue ? "passed" : "held";
  }

  /** Sends the filter's answer through its own response callbacks, as Envoy does after the callback. */
  #answered(callback: string, stops: boolean): Verdict {
    const reply = this.#state.reply;
    if (reply === undefined) throw new Error("no local response to send");
    if (!stops) misuse(`${callback} continues after a local response`);
    const contentType = this.#state.request.headers?.first("content-type") ?? "";
    if (/^application\/grpc(\+|$)/.test(contentType)) {
      const message: HeaderList = reply.body === "" ? [] : [["grpc-message", encodeURI(reply.body)]];
      const head: HeaderList = [
        [":status", "200"],
        ["content-type", "application/grpc"],
        ["grpc-status", String(reply.grpcStatus)],
      ];
      this.responseHeaders([...head, ...message, ...reply.headers], true);
    } else {
      const body = Buffer.from(reply.body, "latin1");
      const head: HeaderList = [
        [":status", String(reply.httpStatus)],
        ["content-length", String(body.length)],
      ];
      this.responseHeaders([...head, ...reply.headers], body.length === 0);
      if (body.length > 0) this.responseBody(body, true);
    }
    return "refused";
  }

  #call(callback: string, ...parameters: number[]): number {
    if (this.#closed) throw new Error("the test uses a closed stream");
    const scope: Scope = { callback, stream: this.#state };
    this.host.scope = scope;
    try {
      return this.guest.call(callback, ...parameters);
    } finally {
      this.host.scope = undefined;
    }
  }
}

function passedOf(direction: Direction): Passed {
  return {
    headers: direction.held ? [] : (direction.headers?.list() ?? []),
    body: Buffer.concat(direction.passed),
    ended: direction.ended,
  };
}
