import { misuse } from "./host-errors.js";

/** Names and values in order, repeated names included. Each character of a text is one byte. */
export type HeaderList = readonly (readonly [name: string, value: string])[];

/** Token of RFC 9110 in lower case, or a pseudo-header. */
const NAME = /^:?[a-z0-9!#$%&'*+.^_`|~-]+$/;
const FORBIDDEN_IN_VALUE = /[\0\r\n]/;

/** The headers of one direction of a stream, with Envoy's rules for changes by a filter. */
export class HeaderMap {
  #pairs: [string, string][];

  /** Names are put into lower case, as Envoy's codecs do. */
  constructor(headers: HeaderList) {
    this.#pairs = headers.map(([name, value]) => [name.toLowerCase(), value]);
  }

  list(): HeaderList {
    return this.#pairs.map(([name, value]) => [name, value] as const);
  }

  /** First value, or undefined: all that a look-up by a filter sees. */
  first(name: string): string | undefined {
    return this.#pairs.find(([known]) => known === name)?.[1];
  }

  add(name: string, value: string): void {
    check(name, value);
    if (name.startsWith(":")) misuse(`adds the pseudo-header ${name}; replace it`);
    this.#pairs.push([name, value]);
  }

  /** The value takes the place of all that were there. */
  replace(name: string, value: string): void {
    check(name, value);
    const at = this.#pairs.findIndex(([known]) => known === name);
    if (at < 0 && name.startsWith(":")) misuse(`adds the pseudo-header ${name}`);
    if (at < 0) this.#pairs.push([name, value]);
    else this.#pairs = this.#pairs.filter(([known], index) => index <= at || known !== name);
    const entry = this.#pairs.find(([known]) => known === name);
    if (entry !== undefined) entry[1] = value;
  }

  remove(name: string): void {
    check(name, "");
    if (name.startsWith(":")) misuse(`removes the pseudo-header ${name}, which crashes Envoy`);
    this.#pairs = this.#pairs.filter(([known]) => known !== name);
  }

  /** The block of proxy_get_header_map_pairs. */
  encode(): Buffer {
    const lengths = Buffer.alloc(4 + this.#pairs.length * 8);
    lengths.writeUInt32LE(this.#pairs.length, 0);
    const texts = this.#pairs.map(([name, value], index) => {
      lengths.writeUInt32LE(name.length, 4 + index * 8);
      lengths.writeUInt32LE(value.length, 8 + index * 8);
      return Buffer.from(`${name}\0${value}\0`, "latin1");
    });
    return Buffer.concat([lengths, ...texts]);
  }
}

/** Reads a block of pairs. Envoy silently takes no header at all from an inexact block; here it is an error. */
export function decodePairs(block: Buffer): HeaderList {
  if (block.length < 4) misuse(`header block of ${block.length} bytes has no count`);
  const count = block.readUInt32LE(0);
  if (count > 1024) misuse(`header block names ${count} pairs, the host takes 1024`);
  let at = 4 + count * 8;
  if (at > block.length) misuse(`header block of ${block.length} bytes is too short for ${count} pairs`);
  const pairs: [string, string][] = [];
  const text = (length: number): string => {
    if (at + length + 1 > block.length || block[at + length] !== 0)
      misuse("header block: a text has no NUL at its end");
    at += length + 1;
    return block.toString("latin1", at - length - 1, at - 1);
  };
  for (let index = 0; index < count; index++) {
    const name = text(block.readUInt32LE(4 + index * 8));
    const value = text(block.readUInt32LE(8 + index * 8));
    check(name, value);
    pairs.push([name, value]);
  }
  if (at !== block.length) misuse(`header block has ${block.length - at} bytes too many`);
  return pairs;
}

function check(name: string, value: string): void {
  if (!NAME.test(name)) misuse(`header name ${JSON.stringify(name)} is no token in lower case`);
  if (FORBIDDEN_IN_VALUE.test(value)) misuse(`value of header ${name} holds NUL, CR or LF`);
}
