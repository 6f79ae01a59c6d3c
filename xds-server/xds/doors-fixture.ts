import { Client, credentials, Metadata, type ServiceError } from "@grpc/grpc-js";
import { ModelInferRequest } from "@servemesh/proto/gen/mesh/inference/grpc_service.js";
import { H_REASON, H_REQUEST_ID, H_SERVED_BY } from "@servemesh/proto/names";

/** Answer of a REST door. */
export interface RestAnswer {
  readonly status: number;
  readonly reason: string | null;
  readonly servedBy: string | null;
  readonly requestId: string | null;
  readonly headers: Headers;
  /** The mesh's error form, or what the pretended batcher says of the call. */
  readonly body: {
    readonly error?: string;
    readonly code?: number;
    readonly reason?: string;
    readonly port?: number;
    readonly method?: string;
    readonly rest?: { readonly model: string; readonly version: string; readonly label: string };
  };
}

export interface RestCall {
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly method?: string;
  readonly body?: Buffer | string;
}

/** Calls a REST door over HTTP/1.1. The body of every answer must be JSON, also of errors. */
export async function callRest(port: number, call: RestCall): Promise<RestAnswer> {
  const { path, headers = {}, method = "POST", body = "{}" } = call;
  const response = await fetch(`http://127.0.0.1:${port}${path}`, {
    method,
    headers: { "content-type": "application/json", ...headers },
    ...(method === "POST" ? { body } : {}),
  });
  const text = await response.text();
  return {
    status: response.status,
    reason: response.headers.get(H_REASON),
    servedBy: response.headers.get(H_SERVED_BY),
    requestId: response.headers.get(H_REQUEST_ID),
    headers: response.headers,
    body: parseBody(text, response.status),
  };
}

function parseBody(text: string, status: number): RestAnswer["body"] {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`the body of an answer with status ${status} is not JSON: ${JSON.stringify(text.slice(0, 200))}`);
  }
}

/** Outcome of a call at the gRPC door. */
export interface GrpcAnswer {
  readonly code: number;
  readonly details: string;
  readonly reason: string | undefined;
  readonly servedBy: string | undefined;
}

export interface GrpcCall {
  readonly headers?: Readonly<Record<string, string>>;
  readonly method?: string;
  /** Reference in the message; `ranker` when nothing is said. */
  readonly modelName?: string;
  /** Bytes that make the message larger. */
  readonly paddingBytes?: number;
}

/** A client of the gRPC door with one connection. */
export class GrpcDoor {
  readonly #client: Client;

  /** @param certificatePem what a TLS door is trusted by; plain text without it */
  constructor(port: number, certificatePem?: string) {
    const trust =
      certificatePem === undefined ? credentials.createInsecure() : credentials.createSsl(Buffer.from(certificatePem));
    this.#client = new Client(`127.0.0.1:${port}`, trust, {
      "grpc.max_receive_message_length": -1,
    });
  }

  close(): void {
    this.#client.close();
  }

  call({ headers = {}, method = "ModelInfer", modelName = "ranker", paddingBytes = 0 }: GrpcCall): Promise<GrpcAnswer> {
    const metadata = new Metadata();
    for (const [key, value] of Object.entries(headers)) metadata.set(key, value);
    const message = ModelInferRequest.fromPartial({ modelName, rawInputContents: [Buffer.alloc(paddingBytes)] });
    const raw = (bytes: Buffer): Buffer => bytes;
    return new Promise((resolve) => {
      let servedBy: string | undefined;
      const path = `/inference.GRPCInferenceService/${method}`;
      const request = Buffer.from(ModelInferRequest.encode(message).finish());
      const call = this.#client.makeUnaryRequest(path, raw, raw, request, metadata, (error: ServiceError | null) => {
        const reason = error?.metadata.get(H_REASON)[0]?.toString();
        resolve({ code: error?.code ?? 0, details: error?.details ?? "", reason, servedBy });
      });
      call.on("metadata", (received) => {
        servedBy = received.get(H_SERVED_BY)[0]?.toString();
      });
    });
  }
}
