/** A JSON number that keeps its text, so that 64-bit integers stay exact and 1e400 can be told from Infinity. */
export class JsonNumber {
  /** The whole text that `start` and `end` cut the number from; the cut is made only when somebody asks. */
  constructor(
    private readonly source: string,
    private readonly start: number,
    private readonly end: number,
    /** The text has neither fraction nor exponent. */
    readonly integral: boolean,
    /** The nearest double; Infinity beyond its range. */
    readonly value: number,
  ) {}

  static of(text: string): JsonNumber {
    return new JsonNumber(text, 0, text.length, /^-?\d+$/.test(text), Number(text));
  }

  get text(): string {
    return this.source.slice(this.start, this.end);
  }

  get length(): number {
    return this.end - this.start;
  }
}

/** A JSON object. A Map, so that no key can reach a prototype. */
export type JsonObject = ReadonlyMap<string, JsonValue>;

export type JsonValue = null | boolean | string | JsonNumber | readonly JsonValue[] | JsonObject;

export function isJsonObject(value: JsonValue | undefined): value is JsonObject {
  return value instanceof Map;
}

export function isJsonArray(value: JsonValue | undefined): value is readonly JsonValue[] {
  return Array.isArray(value);
}

/** The kind of a value for messages: "null", "a boolean", "a number", "a string", "an array" or "an object". */
export function describeJson(value: JsonValue): string {
  if (value === null) return "null";
  if (typeof value === "boolean") return "a boolean";
  if (typeof value === "string") return "a string";
  if (value instanceof JsonNumber) return "a number";
  return isJsonArray(value) ? "an array" : "an object";
}
