import { ALIAS_MAX, MODEL_NAME_MAX, VERSION_DIGITS_MAX } from "./names.js";

/** What a reference is held to: a name that moves (alias) or a version that never does. */
export type Pin =
  | { readonly kind: "alias"; readonly alias: string }
  | { readonly kind: "version"; readonly version: bigint };

/** A model reference (DESIGN §3): `ranker`, `ranker@canary` or `ranker:41`. Without a pin it means the default alias. */
export interface ModelRef {
  readonly model: string;
  readonly pin?: Pin;
}

/** A parsed reference, or one sentence that says what is wrong and what would be right. */
export type ModelRefResult = ({ readonly ok: true } & ModelRef) | { readonly ok: false; readonly problem: string };

const MODEL_NAME = /^[a-z0-9][a-z0-9._-]*$/;
const ALIAS = /^[a-z][a-z0-9-]*$/;
const VERSION = /^[1-9][0-9]*$/;
const VERSION_MAX = 2n ** 63n - 1n;
/** Longest part of a caller's text that a problem repeats, in characters. */
const SHOWN_MAX = 80;

/** True for a model name: `[a-z0-9][a-z0-9._-]{0,62}`. */
export function isModelName(text: string): boolean {
  return text.length <= MODEL_NAME_MAX && MODEL_NAME.test(text);
}

/** True for an alias: `[a-z][a-z0-9-]{0,31}`. */
export function isAliasName(text: string): boolean {
  return text.length <= ALIAS_MAX && ALIAS.test(text);
}

/** Version of a decimal text: 1 to 2^63-1 without sign or leading zeros (Triton's rule); undefined if it is none. */
export function parseVersion(text: string): bigint | undefined {
  // The length first, so that a huge number is never converted.
  if (text.length > VERSION_DIGITS_MAX || !VERSION.test(text)) return undefined;
  const version = BigInt(text);
  return version <= VERSION_MAX ? version : undefined;
}

/**
 * Reads a model reference. Never throws, whatever the text.
 * The AssemblyScript parser of the gate follows the same table, proto/vectors/model-ref.json.
 */
export function parseModelRef(text: string): ModelRefResult {
  const at = text.search(/[@:]/);
  const model = at < 0 ? text : text.slice(0, at);
  if (!isModelName(model)) {
    return refuse(text, `the model name must match [a-z0-9][a-z0-9._-]* and have at most ${MODEL_NAME_MAX} characters`);
  }
  if (at < 0) return { ok: true, model };
  const pinText = text.slice(at + 1);
  if (/[@:]/.test(pinText)) return refuse(text, "only one pin is possible; write model@alias or model:version");
  if (text[at] === "@") {
    if (isAliasName(pinText)) return { ok: true, model, pin: { kind: "alias", alias: pinText } };
    return refuse(text, `the alias after "@" must match [a-z][a-z0-9-]* and have at most ${ALIAS_MAX} characters`);
  }
  const version = parseVersion(pinText);
  if (version !== undefined) return { ok: true, model, pin: { kind: "version", version } };
  return refuse(text, `the version after ":" must be a whole number from 1 to ${VERSION_MAX} without leading zeros`);
}

/** The one text of a reference; `parseModelRef` of it gives the same reference back. */
export function formatModelRef(ref: ModelRef): string {
  if (ref.pin === undefined) return ref.model;
  return ref.pin.kind === "alias" ? `${ref.model}@${ref.pin.alias}` : `${ref.model}:${ref.pin.version}`;
}

function refuse(text: string, rule: string): { ok: false; problem: string } {
  return { ok: false, problem: `model reference ${quote(text)} is not valid: ${rule}` };
}

/** The text cut and in plain ASCII, because problems also travel in headers. */
function quote(text: string): string {
  const shown = text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}...` : text;
  return JSON.stringify(shown).replace(/[^ -~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
