import { Server, type ServerDuplexStream, type ServerUnaryCall, type sendUnaryData, status } from "@grpc/grpc-js";
import {
  type GRPCInferenceServiceServer,
  GRPCInferenceServiceService,
  type ModelInferRequest,
  ModelInferResponse,
  type ModelStreamInferResponse,
} from "@servemesh/proto/gen/mesh/inference/grpc_service.js";
import { bindServer } from "../../platform/grpc-server.js";

/** A gRPC failure that the fake answers with. */
export class FakeFailure extends Error {
  constructor(
    readonly code: status,
    readonly details: string,
  ) {
    super(details);
  }
}

/** The words of a real Triton 2.51 whose python process has died. */
export const STUB_DEAD_WORDS = "Stub process 'ranker_0_0' is not healthy.";

/**
 * A KServe v2 server on loopback for fault tests, with the generated codecs, so that our own encoding is checked against
 * them. It answers each input under the output name of the same position in `outputs`.
 */
export class FakeTriton {
  /** Requests of both kinds, in the order of their arrival. */
  readonly requests: ModelInferRequest[] = [];
  /** Requests that came as a call of their own. */
  unaryCalls = 0;
  /** ModelStreamInfer calls so far. */
  openedStreams = 0;
  /** False: a server without ModelStreamInfer. */
  hasStreams = true;
  loads = 0;
  ready = true;
  /** Deadline of the last unary ModelInfer as epoch ms; Infinity without one. */
  lastDeadlineMs = Number.NaN;
  /** Replaces the echo; may throw FakeFailure, or never settle. */
  behaviour: (request: ModelInferRequest) => ModelInferResponse | Promise<ModelInferResponse> = (request) =>
    this.echo(request);
  private server: Server | undefined;
  private port = 0;

  get address(): { host: string; port: number } {
    return { host: "127.0.0.1", port: this.port };
  }

  /** Starts, or starts again on the same port. */
  async start(): Promise<this> {
    const server = new Server({ "grpc.max_receive_message_length": -1 });
    const unimplemented = (_call: unknown, done: sendUnaryData<never>): void => done({ code: status.UNIMPLEMENTED });
    const service: GRPCInferenceServiceServer = {
      serverLive: (_call, done) => done(null, { live: true }),
      serverReady: (_call, done) => done(null, { ready: this.ready }),
      modelReady: (_call, done) => done(null, { ready: this.ready }),
      modelInfer: (call: ServerUnaryCall<ModelInferRequest, ModelInferResponse>, done) => void this.infer(call, done),
      repositoryModelLoad: (_call, done) => {
        this.loads += 1;
        done(null, {});
      },
      serverMetadata: unimplemented,
      modelMetadata: unimplemented,
      modelConfig: unimplemented,
      modelStatistics: unimplemented,
      repositoryIndex: unimplemented,
      repositoryModelUnload: unimplemented,
      modelStreamInfer: (call) => this.inferStream(call),
    };
    server.addService(GRPCInferenceServiceService, service);
    this.port = await bindServer(server, `127.0.0.1:${this.port}`);
    this.server = server;
    return this;
  }

  /** Goes away as a killed process does: connections break. */
  kill(): void {
    this.server?.forceShutdown();
    this.server = undefined;
  }

  echo(request: ModelInferRequest): ModelInferResponse {
    return ModelInferResponse.fromPartial({
      modelName: request.modelName,
      modelVersion: request.modelVersion,
      outputs: request.outputs.map(({ name }, index) => ({
        name,
        datatype: request.inputs[index]?.datatype ?? "",
        shape: request.inputs[index]?.shape ?? [],
      })),
      rawOutputContents: request.outputs.map((_, index) => request.rawInputContents[index] ?? Buffer.alloc(0)),
    });
  }

  /** As Triton does it: a text in place of a status, and the stream stays open. */
  private inferStream(call: ServerDuplexStream<ModelInferRequest, ModelStreamInferResponse>): void {
    this.openedStreams += 1;
    if (!this.hasStreams) {
      call.emit("error", { code: status.UNIMPLEMENTED, details: "no streams here" });
      return;
    }
    call.on("end", () => call.end());
    call.on("error", () => {});
    call.on("data", (request: ModelInferRequest) => {
      this.requests.push(request);
      Promise.resolve()
        .then(() => this.behaviour(request))
        .then(
          (inferResponse) => call.write({ errorMessage: "", inferResponse }),
          (error: unknown) =>
            call.write({
              errorMessage: error instanceof Error ? error.message : String(error),
              inferResponse: undefined,
            }),
        );
    });
  }

  private async infer(
    call: ServerUnaryCall<ModelInferRequest, ModelInferResponse>,
    done: sendUnaryData<ModelInferResponse>,
  ): Promise<void> {
    this.requests.push(call.request);
    this.unaryCalls += 1;
    const deadline = call.getDeadline();
    this.lastDeadlineMs = typeof deadline === "number" ? deadline : deadline.getTime();
    try {
      done(null, await this.behaviour(call.request));
    } catch (error) {
      if (error instanceof FakeFailure) done({ code: error.code, details: error.details });
      else done({ code: status.UNKNOWN, details: String(error) });
    }
  }
}
