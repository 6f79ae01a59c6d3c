import { PredictError } from "../request.js";

const MAX_QUOTED_CHARS = 64;
const MAX_LISTED_NAMES = 8;

/** A refusal for something in the request itself; it must name the field, the problem and the remedy. */
export function badInput(message: string): PredictError {
  return new PredictError("bad_input", message);
}

/**
 * A caller's text for use inside a message: quoted, cut, and in plain ASCII because messages also travel in headers, so
 * that it can neither break nor flood the message.
 */
export function quote(text: string): string {
  const shown = text.length > MAX_QUOTED_CHARS ? `${text.slice(0, MAX_QUOTED_CHARS - 3)}...` : text;
  return JSON.stringify(shown).replace(/[^ -~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Names quoted and joined by commas, cut after eight. */
export function quoteAll(names: readonly string[]): string {
  const shown = names.slice(0, MAX_LISTED_NAMES).map(quote).join(", ");
  const rest = names.length - MAX_LISTED_NAMES;
  return rest > 0 ? `${shown} and ${rest} more` : shown;
}

/** `[1,4]`, cut after sixteen dimensions. */
export function formatShape(shape: readonly (number | bigint)[]): string {
  return shape.length > 16 ? `[${shape.slice(0, 16).join(",")},...]` : `[${shape.join(",")}]`;
}
