/** Protobuf's length-delimited wire type. */
const LENGTH_DELIMITED = 2;

/** One length-delimited protobuf field (message, string or bytes): tag, length, content. */
export function lengthDelimited(fieldNumber: number, content: Uint8Array | string): Buffer {
  const bytes = typeof content === "string" ? Buffer.from(content, "utf8") : content;
  return Buffer.concat([varint(fieldNumber * 8 + LENGTH_DELIMITED), varint(bytes.length), bytes]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  while (rest > 0x7f) {
    bytes.push((rest & 0x7f) | 0x80);
    rest = Math.floor(rest / 128);
  }
  bytes.push(rest);
  return Buffer.from(bytes);
}
