import type { Server, ServerOptions } from "@grpc/grpc-js";
import { type Clock, systemClock } from "../platform/clock.js";
import type { Predictor } from "../request.js";
import { addInferenceService } from "./inference-service.js";
import { DEFAULT_LIMITS, type IngressLimits } from "./limits.js";
import type { IngressLogger, IngressMetrics } from "./ports.js";
import { PredictFlow } from "./predict-flow.js";
import { addRestService } from "./rest-service.js";
import type { ServedModel } from "./served-model.js";

export interface IngressDeps {
  /** The pipeline behind the doors. */
  readonly predictor: Predictor;
  /** What is served at this moment; undefined before the first assignment. Called for every request, so it must be cheap. */
  readonly served: () => ServedModel | undefined;
  readonly logger: IngressLogger;
  readonly metrics: IngressMetrics;
  readonly clock?: Clock;
  /** Overrides of DEFAULT_LIMITS. */
  readonly limits?: Partial<IngressLimits>;
  /** Let calls without mesh headers in from this machine (tests, benchmarks); true by default. */
  readonly allowDirect?: boolean;
  /** Answered by server metadata. */
  readonly serverVersion?: string;
}

/** The batcher's doors: KServe v2 gRPC and the REST forms that Envoy transcodes, on one gRPC server. */
export interface Ingress {
  /** Options that the server must be created with, so that message limits agree. */
  readonly serverOptions: ServerOptions;
  /** Effective limits, for the start-up log. */
  readonly limits: IngressLimits;
  /** Registers both services. Once per server, before it is bound. */
  addTo(server: Server): void;
}

/** Streams of one connection; Envoy opens another connection beyond it. */
const MAX_STREAMS = 1024;
/**
 * grpc-js ends a message over its own limit without our reason, so its limit lies above ours: what is a little too large
 * gets the full refusal, what is absurdly large is cut off unread.
 */
const HARD_LIMIT_FACTOR = 2;

/** Wires the ingress. Starts nothing and holds nothing open: calls end with their streams. */
export function createIngress(deps: IngressDeps): Ingress {
  const limits: IngressLimits = { ...DEFAULT_LIMITS, ...deps.limits };
  const clock = deps.clock ?? systemClock;
  const flow = new PredictFlow({
    predictor: deps.predictor,
    served: deps.served,
    clock,
    limits,
    allowDirect: deps.allowDirect ?? true,
  });
  const serviceDeps = {
    clock,
    limits,
    logger: deps.logger,
    metrics: deps.metrics,
    serverVersion: deps.serverVersion ?? "0.1.0",
  };
  return {
    limits,
    serverOptions: {
      "grpc.max_receive_message_length": limits.maxRequestBytes * HARD_LIMIT_FACTOR,
      "grpc.max_send_message_length": -1,
      "grpc.max_concurrent_streams": MAX_STREAMS,
      // Its bookkeeping costs every call, and our own metrics tell the same.
      "grpc.enable_channelz": 0,
    },
    addTo(server) {
      addInferenceService(server, flow, serviceDeps);
      addRestService(server, flow, serviceDeps);
    },
  };
}
