import {
  REASON_BAD_INPUT,
  REASON_DEADLINE,
  REASON_DRAINING,
  REASON_FORBIDDEN,
  REASON_INTERNAL,
  REASON_METHOD_NOT_ALLOWED,
  REASON_MODEL_NOT_FOUND,
  REASON_OVERLOADED,
  REASON_PATH_NOT_FOUND,
  REASON_QUOTA,
  REASON_TOO_LARGE,
  REASON_UNAUTHENTICATED,
  REASON_UNAVAILABLE,
  REASON_UNSUPPORTED_MEDIA_TYPE,
} from "../../../proto/src/names";
import { literal, Span } from "../proxy-wasm/index";

/** A reason word with its statuses (proto/src/refusal.ts; a test compares the two). */
@unmanaged
export class Reason {
  word: Span = new Span();
  httpStatus: u32 = 0;
  grpcStatus: i32 = 0;
  /** Counter of the gate's refusals with this reason (metrics.ts). */
  metric: u32 = 0;
}

function reason(word: string, httpStatus: u32, grpcStatus: i32): Reason {
  const made = new Reason();
  made.word = literal(word);
  made.httpStatus = httpStatus;
  made.grpcStatus = grpcStatus;
  return made;
}

export const UNAUTHENTICATED = reason(REASON_UNAUTHENTICATED, 401, 16);
export const FORBIDDEN = reason(REASON_FORBIDDEN, 403, 7);
export const MODEL_NOT_FOUND = reason(REASON_MODEL_NOT_FOUND, 404, 5);
export const PATH_NOT_FOUND = reason(REASON_PATH_NOT_FOUND, 404, 5);
export const METHOD_NOT_ALLOWED = reason(REASON_METHOD_NOT_ALLOWED, 405, 12);
export const UNSUPPORTED_MEDIA_TYPE = reason(REASON_UNSUPPORTED_MEDIA_TYPE, 415, 3);
export const BAD_INPUT = reason(REASON_BAD_INPUT, 400, 3);
export const DEADLINE = reason(REASON_DEADLINE, 504, 4);
export const UNAVAILABLE = reason(REASON_UNAVAILABLE, 503, 14);
export const INTERNAL = reason(REASON_INTERNAL, 500, 13);
// These are never the gate's own: batchers and Envoy answer with them, and the gate repeats them in rewritten bodies.
export const TOO_LARGE = reason(REASON_TOO_LARGE, 413, 8);
export const OVERLOADED = reason(REASON_OVERLOADED, 429, 8);
export const QUOTA = reason(REASON_QUOTA, 429, 8);
export const DRAINING = reason(REASON_DRAINING, 503, 14);

export const REASONS: StaticArray<Reason> = [
  UNAUTHENTICATED,
  FORBIDDEN,
  MODEL_NOT_FOUND,
  PATH_NOT_FOUND,
  METHOD_NOT_ALLOWED,
  UNSUPPORTED_MEDIA_TYPE,
  BAD_INPUT,
  DEADLINE,
  UNAVAILABLE,
  INTERNAL,
  TOO_LARGE,
  OVERLOADED,
  QUOTA,
  DRAINING,
];

/** The reason with this word, or null. */
export function reasonOfWord(word: Span): Reason | null {
  for (let index = 0; index < REASONS.length; index++) if (REASONS[index].word.equals(word)) return REASONS[index];
  return null;
}

/** Reason of an error answer that names none, from its HTTP status. */
export function reasonOfHttpStatus(status: u32): Reason {
  switch (status) {
    case 400:
      return BAD_INPUT;
    case 401:
      return UNAUTHENTICATED;
    case 403:
      return FORBIDDEN;
    case 404:
      return PATH_NOT_FOUND;
    case 405:
    case 501:
      return METHOD_NOT_ALLOWED;
    case 408:
    case 504:
      return DEADLINE;
    case 413:
    case 431:
      return TOO_LARGE;
    case 415:
      return UNSUPPORTED_MEDIA_TYPE;
    case 429:
      return OVERLOADED;
    case 503:
      return UNAVAILABLE;
    default:
      return status < 500 ? BAD_INPUT : INTERNAL;
  }
}

/** Reason of an error answer that names none, from its gRPC status. */
export function reasonOfGrpcStatus(status: u32): Reason {
  switch (status) {
    case 3:
      return BAD_INPUT;
    case 4:
      return DEADLINE;
    case 5:
      return MODEL_NOT_FOUND;
    case 7:
      return FORBIDDEN;
    case 8:
      return OVERLOADED;
    case 12:
      return PATH_NOT_FOUND;
    case 14:
      return UNAVAILABLE;
    case 16:
      return UNAUTHENTICATED;
    default:
      return INTERNAL;
  }
}
