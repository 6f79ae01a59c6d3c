import { type ChannelOptions, credentials, loadPackageDefinition, Metadata, type ServiceError } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { PROTO_FILES, protoRoot } from "@servemesh/proto/sources";

/** Messages as proto-loader gives them: names as in the `.proto`, 64-bit integers as decimal strings, bytes as Buffer. */
// biome-ignore lint/suspicious/noExplicitAny: a dynamic caller has no types by its nature
export type Message = Record<string, any>;

/** An answer of the gRPC door, whatever its status. */
export interface GrpcAnswer {
  /** gRPC status; 0 is OK. */
  readonly code: number;
  readonly message: string;
  /** Headers of the answer, or the trailers of a refusal. */
  readonly headers: ReadonlyMap<string, string>;
  readonly answer?: Message;
}

export interface GrpcCall {
  readonly method?: string;
  readonly request: Message;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
}

type Unary = (
  request: Message,
  metadata: Metadata,
  options: { deadline?: number },
  callback: (error: ServiceError | null, answer?: Message) => void,
) => { on(event: "metadata", listener: (metadata: Metadata) => void): void };

const definition = loadSync(PROTO_FILES.inference, {
  includeDirs: [protoRoot],
  keepCase: true,
  longs: String,
  defaults: false,
});

/** A client of `inference.GRPCInferenceService` that knows nothing but the published `.proto`, like other people's clients. */
export class GrpcClient {
  readonly #client: Record<string, Unary> & { close(): void };
  readonly #defaults: Readonly<Record<string, string>>;

  /** @param defaults metadata of every call, such as the key; a call's own win, and an empty value leaves one out */
  constructor(address: string, defaults: Readonly<Record<string, string>> = {}, options: ChannelOptions = {}) {
    const loaded = loadPackageDefinition(definition) as Message;
    this.#client = new loaded.inference.GRPCInferenceService(address, credentials.createInsecure(), options);
    this.#defaults = defaults;
  }

  call({ method = "ModelInfer", request, metadata = {}, timeoutMs }: GrpcCall): Promise<GrpcAnswer> {
    const sent = new Metadata();
    for (const [key, value] of Object.entries({ ...this.#defaults, ...metadata }))
      if (value !== "") sent.set(key, value);
    const deadline = timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs };
    return new Promise((resolve) => {
      let initial = new Metadata();
      const call = this.#client[method]?.(request, sent, deadline, (error, answer) => {
        if (error) resolve({ code: error.code, message: error.details, headers: asMap(error.metadata) });
        else resolve({ code: 0, message: "", headers: asMap(initial), ...(answer && { answer }) });
      });
      if (call === undefined) throw new Error(`the service has no method ${method}`);
      call.on("metadata", (received) => {
        initial = received;
      });
    });
  }

  close(): void {
    this.#client.close();
  }
}

function asMap(metadata: Metadata): ReadonlyMap<string, string> {
  return new Map(Object.entries(metadata.getMap()).map(([key, value]) => [key, value.toString()]));
}

/** An INT64 tensor of shape [n,1] as raw bytes, exact for every 64-bit value. */
export function int64Column(name: string, values: readonly bigint[]): { input: Message; raw: Buffer } {
  const raw = Buffer.alloc(values.length * 8);
  for (const [index, value] of values.entries()) raw.writeBigInt64LE(value, index * 8);
  return { input: { name, datatype: "INT64", shape: [String(values.length), "1"] }, raw };
}
