import { isUtf8 } from "node:buffer";
import { PredictError } from "../../request.js";
import { badInput, quote } from "../bad-input.js";
import { JsonNumber, type JsonValue } from "./value.js";

export interface JsonLimits {
  /** Deepest nesting of arrays and objects. */
  readonly maxJsonDepth: number;
  /** Values in the whole text. */
  readonly maxJsonValues: number;
}

/** Longest accepted number text; longer ones carry no more meaning for any datatype. */
const MAX_NUMBER_CHARS = 512;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const MINUS = 0x2d;
const ZERO = 0x30;
const NINE = 0x39;

const SIMPLE_ESCAPES: ReadonlyMap<string, string> = new Map([
  ['"', '"'],
  ["\\", "\\"],
  ["/", "/"],
  ["b", "\b"],
  ["f", "\f"],
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
]);

/** Words that other serialisers write for numbers that JSON does not have. */
const NON_FINITE = ["NaN", "-NaN", "Infinity", "-Infinity", "nan", "inf", "-inf"];

class JsonSyntaxError extends Error {
  constructor(
    readonly problem: string,
    /** In UTF-16 units. */
    readonly at: number,
    readonly remedy = "send RFC 8259 JSON",
  ) {
    super(problem);
  }
}

/** Powers of ten that a double holds exactly. */
const POWERS_OF_TEN = Array.from({ length: 23 }, (_, exponent) => Number(`1e${exponent}`));

/**
 * The double of the digits from `from` to `end` with a point at `pointAt` (-1: none), or NaN when it takes more than one rounding:
 * an integer below 2^53 divided by a power of ten up to 10^22 is rounded correctly, once (Clinger 1990, "How to read
 * floating point numbers accurately", fast path). It spares a string for nearly every number.
 */
function exactDouble(text: string, from: number, end: number, pointAt: number): number {
  if (end - from > 24) return Number.NaN;
  let mantissa = 0;
  for (let at = from; at < end; at += 1) {
    if (at !== pointAt) mantissa = mantissa * 10 + text.charCodeAt(at) - ZERO;
  }
  const power = POWERS_OF_TEN[pointAt < 0 ? 0 : end - pointAt - 1];
  return mantissa <= Number.MAX_SAFE_INTEGER && power !== undefined ? mantissa / power : Number.NaN;
}

/** One pass over one text by RFC 8259, nothing beyond it: no comments, no trailing commas, no duplicate keys. */
class Parser {
  private at = 0;
  private values = 0;

  constructor(
    private readonly text: string,
    private readonly limits: JsonLimits,
  ) {}

  document(): JsonValue {
    this.space();
    const value = this.value(0);
    this.space();
    if (this.at < this.text.length) throw this.unexpected();
    return value;
  }

  private value(depth: number): JsonValue {
    this.values += 1;
    if (this.values > this.limits.maxJsonValues) {
      throw new JsonSyntaxError(
        `more than ${this.limits.maxJsonValues} values`,
        this.at,
        "send large tensors in binary form (binary_data_size or gRPC)",
      );
    }
    const code = this.text.charCodeAt(this.at);
    if (code === MINUS || (code >= ZERO && code <= NINE)) return this.number();
    switch (code) {
      case QUOTE:
        return this.string();
      case 0x5b:
        return this.array(depth + 1);
      case 0x7b:
        return this.object(depth + 1);
      case 0x74:
        return this.word("true", true);
      case 0x66:
        return this.word("false", false);
      case 0x6e:
        return this.word("null", null);
      default:
        throw this.unexpected();
    }
  }

  private array(depth: number): JsonValue[] {
    this.enter(depth);
    const items: JsonValue[] = [];
    if (this.closes(0x5d)) return items;
    for (;;) {
      items.push(this.value(depth));
      if (!this.continues(0x5d)) return items;
    }
  }

  private object(depth: number): Map<string, JsonValue> {
    this.enter(depth);
    const members = new Map<string, JsonValue>();
    if (this.closes(0x7d)) return members;
    for (;;) {
      const keyAt = this.at;
      if (this.text.charCodeAt(this.at) !== QUOTE) throw this.unexpected();
      const key = this.string();
      if (members.has(key)) throw new JsonSyntaxError(`duplicate key ${quote(key)}`, keyAt, "send each key once");
      this.space();
      if (this.text.charCodeAt(this.at) !== 0x3a) throw this.unexpected();
      this.at += 1;
      this.space();
      members.set(key, this.value(depth));
      if (!this.continues(0x7d)) return members;
    }
  }

  /** Steps over the opening bracket. */
  private enter(depth: number): void {
    if (depth > this.limits.maxJsonDepth) {
      throw new JsonSyntaxError(`nesting deeper than ${this.limits.maxJsonDepth}`, this.at, "flatten the body");
    }
    this.at += 1;
    this.space();
  }

  private closes(close: number): boolean {
    if (this.text.charCodeAt(this.at) !== close) return false;
    this.at += 1;
    return true;
  }

  /** After an item: true past a comma, false past the closing bracket. */
  private continues(close: number): boolean {
    this.space();
    if (this.closes(close)) return false;
    if (this.text.charCodeAt(this.at) !== 0x2c) throw this.unexpected();
    this.at += 1;
    this.space();
    return true;
  }

  private number(): JsonNumber {
    const { text } = this;
    const start = this.at;
    let at = start;
    if (text.charCodeAt(at) === MINUS) at += 1;
    const wholeAt = at;
    if (text.charCodeAt(at) === ZERO) at += 1;
    else at = this.digits(at, start);
    let pointAt = -1;
    let integral = true;
    if (text.charCodeAt(at) === 0x2e) {
      integral = false;
      pointAt = at;
      at = this.digits(at + 1, start);
    }
    const mantissaEnd = at;
    const exponent = text.charCodeAt(at);
    if (exponent === 0x65 || exponent === 0x45) {
      integral = false;
      const sign = text.charCodeAt(at + 1);
      at = this.digits(sign === MINUS || sign === 0x2b ? at + 2 : at + 1, start);
    }
    if (at - start > MAX_NUMBER_CHARS) {
      throw new JsonSyntaxError(`a number longer than ${MAX_NUMBER_CHARS} characters`, start, "round it");
    }
    this.at = at;
    const fast = at === mantissaEnd ? exactDouble(text, wholeAt, mantissaEnd, pointAt) : Number.NaN;
    const magnitude = Number.isNaN(fast) ? Number(text.slice(wholeAt, at)) : fast;
    return new JsonNumber(text, start, at, integral, wholeAt > start ? -magnitude : magnitude);
  }

  /** Steps over at least one digit. */
  private digits(from: number, numberStart: number): number {
    let at = from;
    for (;;) {
      const code = this.text.charCodeAt(at);
      if (!(code >= ZERO && code <= NINE)) break;
      at += 1;
    }
    if (at > from) return at;
    this.at = numberStart;
    if (NON_FINITE.some((word) => this.text.startsWith(word, numberStart))) throw this.unexpected();
    this.at = from;
    throw this.unexpected();
  }

  private string(): string {
    const { text } = this;
    const start = this.at + 1;
    let at = start;
    for (;;) {
      const code = text.charCodeAt(at);
      if (code === QUOTE) {
        this.at = at + 1;
        return text.slice(start, at);
      }
      if (code === BACKSLASH) return this.escapedString(start, at);
      if (!(code >= 0x20)) throw this.badCharacter(at);
      at += 1;
    }
  }

  private escapedString(start: number, firstEscape: number): string {
    const { text } = this;
    let out = text.slice(start, firstEscape);
    let at = firstEscape;
    let runStart = at;
    let escapedSurrogate = false;
    for (;;) {
      const code = text.charCodeAt(at);
      if (code === QUOTE) break;
      if (!(code >= 0x20)) throw this.badCharacter(at);
      if (code !== BACKSLASH) {
        at += 1;
        continue;
      }
      out += text.slice(runStart, at);
      const simple = SIMPLE_ESCAPES.get(text.charAt(at + 1));
      if (simple !== undefined) {
        out += simple;
        at += 2;
      } else {
        const unit = this.unicodeEscape(at);
        if (unit >= 0xd800 && unit <= 0xdfff) escapedSurrogate = true;
        out += String.fromCharCode(unit);
        at += 6;
      }
      runStart = at;
    }
    out += text.slice(runStart, at);
    // Only escapes can make halves of a pair: the body itself is valid UTF-8.
    if (escapedSurrogate && /\p{Surrogate}/u.test(out)) {
      throw new JsonSyntaxError("a string with half a surrogate pair", start - 1, "send text that UTF-8 can encode");
    }
    this.at = at + 1;
    return out;
  }

  private unicodeEscape(at: number): number {
    const hex = this.text.slice(at + 2, at + 6);
    if (this.text.charAt(at + 1) !== "u" || !/^[0-9a-fA-F]{4}$/.test(hex)) {
      this.at = at;
      if (at + 1 >= this.text.length) throw this.badCharacter(at + 1);
      throw new JsonSyntaxError("an unknown escape in a string", at);
    }
    return Number.parseInt(hex, 16);
  }

  private word<T extends boolean | null>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.at)) throw this.unexpected();
    this.at += word.length;
    return value;
  }

  private space(): void {
    for (;;) {
      const code = this.text.charCodeAt(this.at);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
      this.at += 1;
    }
  }

  private badCharacter(at: number): JsonSyntaxError {
    if (at >= this.text.length) return new JsonSyntaxError("the text ends inside a string", this.text.length);
    return new JsonSyntaxError("a bare control character in a string", at, "escape it");
  }

  private unexpected(): JsonSyntaxError {
    if (this.at >= this.text.length) {
      return new JsonSyntaxError("the text ends too early", this.text.length, "send the whole body");
    }
    const word = NON_FINITE.find((candidate) => this.text.startsWith(candidate, this.at));
    if (word !== undefined) {
      return new JsonSyntaxError(`${word} is not a JSON number`, this.at, "send a finite number, or binary data");
    }
    return new JsonSyntaxError(
      `unexpected ${quote(String.fromCodePoint(this.text.codePointAt(this.at) ?? 0))}`,
      this.at,
    );
  }
}

/**
 * Parses a UTF-8 JSON body, strictly by RFC 8259 and with numbers kept as text.
 * @param where what the bytes are, for messages, e.g. `body`
 * @throws PredictError `bad_input` with the byte offset
 */
export function parseJson(bytes: Buffer, where: string, limits: JsonLimits): JsonValue {
  if (!isUtf8(bytes)) throw badInput(`${where} is not valid UTF-8; send JSON in UTF-8`);
  const text = bytes.toString("utf8");
  try {
    return new Parser(text, limits).document();
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    const offset = Buffer.byteLength(text.slice(0, error.at));
    throw new PredictError(
      "bad_input",
      `${where} is not acceptable JSON: ${error.problem} at byte ${offset}; ${error.remedy}`,
    );
  }
}
