import { Client, credentials, type ServiceError } from "@grpc/grpc-js";

/** What a call of the adapter came to. */
export interface AdapterAnswer {
  /** gRPC status; 0 is OK. */
  readonly code: number;
  readonly message: string;
  /** The answer's encoded bytes; empty after a refusal. */
  readonly bytes: Buffer;
}

export interface NamedResource {
  readonly typeUrl: string;
  readonly value: Uint8Array;
}

/** `success = true`, field 1, as every answer but that of ClearState is encoded. */
export const SUCCESS = Buffer.from([8, 1]);

/**
 * Calls `adapter.Adapter` as the public suite does: paths and field numbers are written out here, so that they are held to
 * what the suite sends and not to the target's own `.proto`.
 */
export class SuiteClient {
  readonly #client: Client;
  readonly #node: string;

  constructor(address: string, node: string) {
    this.#client = new Client(address, credentials.createInsecure());
    this.#node = node;
  }

  setState(version: string, resources: readonly NamedResource[]): Promise<AdapterAnswer> {
    const anys = resources.map(({ typeUrl, value }) => field(3, Buffer.concat([field(1, typeUrl), field(2, value)])));
    return this.#call("SetState", [field(1, this.#node), field(2, version), ...anys]);
  }

  change(
    method: "UpdateResource" | "AddResource" | "RemoveResource",
    typeUrl: string,
    name: string,
    version: string,
  ): Promise<AdapterAnswer> {
    return this.#call(method, [field(1, this.#node), field(2, typeUrl), field(3, name), field(4, version)]);
  }

  clearState(): Promise<AdapterAnswer> {
    return this.#call("ClearState", [field(1, this.#node)]);
  }

  close(): void {
    this.#client.close();
  }

  #call(method: string, fields: readonly Buffer[]): Promise<AdapterAnswer> {
    const raw = (bytes: Buffer): Buffer => bytes;
    return new Promise((resolve) => {
      const settle = (error: ServiceError | null, bytes?: Buffer): void => {
        if (error === null) resolve({ code: 0, message: "", bytes: bytes ?? Buffer.alloc(0) });
        else resolve({ code: error.code, message: error.details, bytes: Buffer.alloc(0) });
      };
      this.#client.makeUnaryRequest(`/adapter.Adapter/${method}`, raw, raw, Buffer.concat(fields), settle);
    });
  }
}

/** One string, bytes or message of protobuf; nothing when it is empty, as in proto3. */
export function field(number: number, content: string | Uint8Array): Buffer {
  const bytes = Buffer.from(content);
  if (bytes.length === 0) return bytes;
  const length = bytes.length < 128 ? [bytes.length] : [(bytes.length & 127) | 128, bytes.length >> 7];
  if (bytes.length >= 128 * 128) throw new Error(`${bytes.length} bytes are more than this test sends`);
  return Buffer.concat([Buffer.from([number * 8 + 2, ...length]), bytes]);
}
