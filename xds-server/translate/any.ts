import type { Any } from "@servemesh/proto/gen/envoy/google/protobuf/any.js";

/** What packing needs of a generated codec. */
export interface PackableCodec<T> {
  readonly $type: string;
  encode(message: T): { finish(): Uint8Array };
}

/** Wraps a message into an Any. Take the message from `Codec.fromPartial`, so that the compiler checks its fields. */
export function packAny<T>(codec: PackableCodec<T>, message: T): Any {
  return { typeUrl: typeUrlOf(codec), value: Buffer.from(codec.encode(message).finish()) };
}

/** Type URL of a generated message. */
export function typeUrlOf(codec: { readonly $type: string }): string {
  return `type.googleapis.com/${codec.$type}`;
}
