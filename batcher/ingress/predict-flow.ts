import type { ServerUnaryCall } from "@grpc/grpc-js";
import { H_ROUTE } from "@servemesh/proto/names";
import type { Clock } from "../platform/clock.js";
import { PredictError, type Predictor, type PredictResult, type RequestContext } from "../request.js";
import { type CompiledSpec, compileSpec } from "./compiled-spec.js";
import type { InferCall } from "./infer-call.js";
import type { IngressLimits } from "./limits.js";
import { type AskedModel, checkReference } from "./reference-check.js";
import { isLoopbackPeer, readContext, readRoute } from "./request-context.js";
import type { ServedModel } from "./served-model.js";
import type { UnaryExchange } from "./unary-exchange.js";
import { checkCall } from "./validate.js";

/** What refusals that pass by themselves suggest as waiting time. */
const RETRY_AFTER_MS = 1000;

export interface FlowDeps {
  readonly predictor: Predictor;
  readonly served: () => ServedModel | undefined;
  readonly clock: Clock;
  readonly limits: IngressLimits;
  readonly allowDirect: boolean;
}

type Call = ServerUnaryCall<Buffer, Buffer>;

/** What a door knows about a predict call once it has read the body. */
export interface DecodedCall {
  readonly call: InferCall;
  readonly asked: AskedModel;
}

/** A predict call that has been let in: decode the body and come back. */
export interface Admitted {
  readonly served: ServedModel;
  readonly spec: CompiledSpec;
  readonly context: RequestContext;
}

/** An answer with what its encoding needs. */
export interface Served extends Admitted {
  readonly call: InferCall;
  readonly result: PredictResult;
}

/** The way that every call takes through the ingress, whatever its door. */
export class PredictFlow {
  constructor(private readonly deps: FlowDeps) {}

  /**
   * First checks, in this order: the body's size, who speaks, whether this replica can serve at all, what the mesh says,
   * and whether there is time left. From here on the exchange's deadline runs.
   * @throws PredictError
   */
  admit(exchange: UnaryExchange, call: Call): Admitted {
    this.checkSize(call.request.length);
    this.checkPeer(call);
    const served = this.readyModel();
    const deadline = call.getDeadline();
    const context = readContext(call.metadata, served, {
      arrivedAtMs: exchange.arrivedAtMs,
      wallMs: this.deps.clock.wallMs(),
      callDeadlineMs: typeof deadline === "number" ? deadline : deadline.getTime(),
      marginMs: this.deps.limits.deadlineMarginMs,
    });
    exchange.expireAt(context.deadlineAtMs);
    return { served, spec: compileSpec(served.spec), context };
  }

  /** Compares the call with route and spec, and hands it to the pipeline. @throws PredictError */
  async predict(exchange: UnaryExchange, call: Call, admitted: Admitted, decoded: DecodedCall): Promise<Served> {
    const { served, spec, context } = admitted;
    checkReference(decoded.asked, readRoute(call.metadata), served);
    const { inputs, requestedOutputs } = checkCall(decoded.call, spec, this.deps.limits);
    const { id, parameters } = decoded.call;
    const result = await this.deps.predictor.predict({ id, inputs, requestedOutputs, parameters, context }, exchange);
    return { ...admitted, call: decoded.call, result };
  }

  /** The model, for calls that only describe it; it need not be ready. @throws PredictError */
  describe(call: Call, asked: AskedModel): ServedModel {
    this.checkPeer(call);
    const served = this.deps.served();
    if (served === undefined) throw notReady();
    checkReference(asked, readRoute(call.metadata), served);
    return served;
  }

  /** True when a predict call would be let in. */
  isReady(): boolean {
    const served = this.deps.served();
    return served?.ready === true && !served.draining;
  }

  /** @throws PredictError `draining` or `unavailable` */
  readyModel(): ServedModel {
    const served = this.deps.served();
    if (served?.draining) {
      throw new PredictError("draining", "this replica is shutting down; another one takes over", RETRY_AFTER_MS);
    }
    if (!served?.ready) throw notReady();
    return served;
  }

  private checkSize(bytes: number): void {
    const { maxRequestBytes } = this.deps.limits;
    if (bytes <= maxRequestBytes) return;
    throw new PredictError(
      "too_large",
      `the request has ${bytes} bytes, the batcher takes ${maxRequestBytes}; send fewer rows`,
    );
  }

  /** Mesh headers are worth what their sender is: over plain text that is this machine only. */
  private checkPeer(call: Call): void {
    if (!isLoopbackPeer(call.getPeer())) {
      throw new PredictError(
        "unauthenticated",
        "the batcher takes calls from its own machine only; go through the gateway",
      );
    }
    if (!this.deps.allowDirect && readRoute(call.metadata) === undefined) {
      throw new PredictError("unauthenticated", `header ${H_ROUTE} is missing; go through the gateway`);
    }
  }
}

function notReady(): PredictError {
  return new PredictError("unavailable", "the model is not ready on this replica; try again", RETRY_AFTER_MS);
}
