/** Kinds of refusals, few enough to be a label of a metric. */
export type RefusalReason =
  | "plugin"
  | "address"
  | "duplicate"
  | "unknown_reference"
  | "validation"
  | "malformed"
  | "other";

/** Envoy's words by kind; the first that fits counts, so the narrower kinds come first. */
const REASONS: readonly (readonly [RegExp, RefusalReason])[] = [
  [/wasm|plugin/i, "plugin"],
  [/cannot bind|address already in use|permission denied/i, "address"],
  [/duplicate|already (added|exists)|only unique/i, "duplicate"],
  [
    /unknown (cluster|route|scope|filter|secret)|does not exist|didn't find a registered implementation|not found/i,
    "unknown_reference",
  ],
  [/constraint|validation|value (must|is)|must (contain|be|have|specify)/i, "validation"],
  [/parse|unpack|decode|invalid/i, "malformed"],
];

/** The kind of a refusal, from Envoy's own words; they are no interface, so what is new is `other`. */
export function refusalReason(words: string): RefusalReason {
  return REASONS.find(([pattern]) => pattern.test(words))?.[1] ?? "other";
}
