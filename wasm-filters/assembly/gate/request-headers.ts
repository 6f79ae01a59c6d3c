import {
  H_API_KEY,
  H_AUTHORIZATION,
  H_CONTENT_ENCODING,
  H_CONTENT_TYPE,
  H_GRPC_TIMEOUT,
  H_PREDICT_PRIORITY,
  H_PREDICT_TIMEOUT,
} from "../../../proto/src/names";
import { HeaderMap, HeaderPairs, literal, Span } from "../proxy-wasm/index";

const METHOD = literal(":method");
const PATH = literal(":path");
const API_KEY = literal(H_API_KEY);
const AUTHORIZATION = literal(H_AUTHORIZATION);
const CONTENT_TYPE = literal(H_CONTENT_TYPE);
const CONTENT_ENCODING = literal(H_CONTENT_ENCODING);
const GRPC_TIMEOUT = literal(H_GRPC_TIMEOUT);
const PREDICT_TIMEOUT = literal(H_PREDICT_TIMEOUT);
const PREDICT_PRIORITY = literal(H_PREDICT_PRIORITY);
/** Headers for the gate's eyes only. */
const CLIENT_PREFIX = literal("x-predict-");

/** A header that is looked for: its first value, and how often it came, because a repeated one is refused. */
@unmanaged
export class Seen {
  value: Span = new Span();
  count: u32 = 0;

  clear(): void {
    this.value.clear();
    this.count = 0;
  }
}

/** The request headers that the gate looks at, taken in one pass. Spans are valid until the callback ends. */
@unmanaged
export class RequestHeaders {
  pairs: HeaderPairs = new HeaderPairs();
  method: Seen = new Seen();
  path: Seen = new Seen();
  contentType: Seen = new Seen();
  contentEncoding: Seen = new Seen();
  authorization: Seen = new Seen();
  apiKey: Seen = new Seen();
  grpcTimeout: Seen = new Seen();
  predictTimeout: Seen = new Seen();
  predictPriority: Seen = new Seen();
  /** The model's sticky header: taken by its stage, when the model is known. */
  sticky: Seen = new Seen();

  /** Reads the request's headers; false when the host has none. */
  read(): bool {
    this.clear();
    if (!this.pairs.load(HeaderMap.Request)) return false;
    while (this.pairs.next()) {
      const seen = this.slotOfName();
      if (seen === null) continue;
      if (seen.count++ === 0) this.pairs.copyValueTo(seen.value);
    }
    return true;
  }

  /** By length first, so that most names cost one comparison of a number. */
  private slotOfName(): Seen | null {
    switch (this.pairs.nameLength) {
      case 5:
        return this.pairs.nameIs(PATH) ? this.path : null;
      case 7:
        return this.pairs.nameIs(METHOD) ? this.method : null;
      case 9:
        return this.pairs.nameIs(API_KEY) ? this.apiKey : null;
      case 12:
        if (this.pairs.nameIs(CONTENT_TYPE)) return this.contentType;
        return this.pairs.nameIs(GRPC_TIMEOUT) ? this.grpcTimeout : null;
      case 13:
        return this.pairs.nameIs(AUTHORIZATION) ? this.authorization : null;
      case 16:
        return this.pairs.nameIs(CONTENT_ENCODING) ? this.contentEncoding : null;
      case 18:
        return this.pairs.nameIs(PREDICT_PRIORITY) ? this.predictPriority : null;
      case 20:
        return this.pairs.nameIs(PREDICT_TIMEOUT) ? this.predictTimeout : null;
      default:
        return null;
    }
  }

  /** Any header by name, in a second pass over the same pairs. */
  find(name: Span, into: Seen): void {
    into.clear();
    this.pairs.rewind();
    while (this.pairs.next()) {
      if (this.pairs.nameIs(name) && into.count++ === 0) this.pairs.copyValueTo(into.value);
    }
  }

  /** True when the current pair must not go upstream: a credential, or a header for the gate only. */
  get currentIsPrivate(): bool {
    return this.pairs.nameStartsWith(CLIENT_PREFIX) || this.pairs.nameIs(AUTHORIZATION) || this.pairs.nameIs(API_KEY);
  }

  private clear(): void {
    this.method.clear();
    this.path.clear();
    this.contentType.clear();
    this.contentEncoding.clear();
    this.authorization.clear();
    this.apiKey.clear();
    this.grpcTimeout.clear();
    this.predictTimeout.clear();
    this.predictPriority.clear();
    this.sticky.clear();
  }
}
