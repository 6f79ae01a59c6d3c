const NODE_FIELD = 1;
const VARINT = 0;
const FIXED64 = 1;
const LENGTH_DELIMITED = 2;
const FIXED32 = 5;

/**
 * A LoadStatsRequest without its field 1, the node. Envoy repeats the whole node in every report, 61 KB for some 200 bytes
 * of figures; to decode it would cost more than all the rest. Jumps over it without reading it.
 * @throws Error when the bytes are no message
 */
export function withoutNode(bytes: Buffer): Buffer {
  const kept: Buffer[] = [];
  let at = 0;
  while (at < bytes.length) {
    const start = at;
    const tag = readVarint(bytes, at);
    at = fieldEnd(bytes, tag.end, tag.value & 7);
    if (tag.value >>> 3 !== NODE_FIELD) kept.push(bytes.subarray(start, at));
  }
  return Buffer.concat(kept);
}

/** Where a field ends whose tag ended at `at`. */
function fieldEnd(bytes: Buffer, at: number, wireType: number): number {
  const end = (): number => {
    switch (wireType) {
      case VARINT:
        return readVarint(bytes, at).end;
      case FIXED64:
        return at + 8;
      case LENGTH_DELIMITED: {
        const length = readVarint(bytes, at);
        return length.end + length.value;
      }
      case FIXED32:
        return at + 4;
      default:
        throw new Error("the load report is no protobuf message: unknown wire type");
    }
  };
  const ended = end();
  if (ended > bytes.length) throw new Error("the load report is cut off");
  return ended;
}

function readVarint(bytes: Buffer, at: number): { value: number; end: number } {
  let value = 0;
  // Multiplication, because shifts are of 32 bits; lengths and tags above 2^53 cannot be in a buffer anyway.
  for (let index = 0; index < 10; index += 1) {
    const byte = bytes[at + index];
    if (byte === undefined) throw new Error("the load report is cut off");
    value += (byte & 0x7f) * 2 ** (7 * index);
    if (byte < 0x80) return { value, end: at + index + 1 };
  }
  throw new Error("the load report is no protobuf message: a number is too long");
}
