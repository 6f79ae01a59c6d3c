import type { Metadata, ServerUnaryCall, sendUnaryData } from "@grpc/grpc-js";
import { REFUSAL_STATUS } from "@servemesh/proto/refusal";
import type { Clock, Timer } from "../platform/clock.js";
import { type Cancellation, PredictError } from "../request.js";
import { refusalOf } from "./answer-metadata.js";
import type { CallOutcome, Door, IngressLogger, IngressMetrics } from "./ports.js";

export interface ExchangeDeps {
  readonly clock: Clock;
  readonly logger: IngressLogger;
  readonly metrics: IngressMetrics;
}

/** A complete answer: headers, if any, and the message. */
export interface Reply {
  readonly metadata?: Metadata;
  readonly body: Buffer;
}

/**
 * One unary call from arrival to its single end. What can happen, each at most once and whichever comes first: the work
 * answers, the work fails, the deadline passes, the caller goes. Later events find the exchange over and do nothing.
 * Refusals are trailers-only because metadata is sent only with an answer.
 */
export class UnaryExchange implements Cancellation {
  cancelled = false;
  onCancel: (() => void) | undefined;
  readonly arrivedAtMs: number;

  private over = false;
  private timer: Timer | undefined;

  constructor(
    readonly door: Door,
    readonly method: string,
    private readonly call: ServerUnaryCall<Buffer, Buffer>,
    private readonly callback: sendUnaryData<Buffer>,
    private readonly deps: ExchangeDeps,
  ) {
    this.arrivedAtMs = deps.clock.nowMs();
    call.on("cancelled", this.callerGone);
    if (call.cancelled) this.callerGone();
  }

  /** Runs the work and answers with what it returns or throws. */
  run(work: (exchange: UnaryExchange) => Reply | Promise<Reply>): void {
    if (this.over) return;
    try {
      const reply = work(this);
      if (reply instanceof Promise) reply.then(this.succeed, this.fail);
      else this.succeed(reply);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Refuses with `deadline` and cancels the work when the time (monotonic) comes. */
  expireAt(deadlineAtMs: number): void {
    if (this.over || deadlineAtMs === Number.POSITIVE_INFINITY) return;
    if (deadlineAtMs <= this.deps.clock.nowMs()) throw deadlineError();
    this.timer = this.deps.clock.schedule(
      deadlineAtMs,
      () => {
        if (this.over) return;
        this.fail(deadlineError());
        this.cancelWork();
      },
      1,
    );
  }

  private readonly succeed = (reply: Reply): void => {
    if (this.over) return;
    this.end("ok", reply.body.length);
    if (reply.metadata !== undefined) this.call.sendMetadata(reply.metadata);
    this.callback(null, reply.body);
  };

  private readonly fail = (cause: unknown): void => {
    if (this.over) return;
    const error = cause instanceof PredictError ? cause : this.internal(cause);
    this.end(error.reason, 0);
    this.callback(refusalOf(error, this.statusOf(error)));
  };

  /** A method that nobody has is UNIMPLEMENTED for gRPC clients; a path that nobody has is NOT_FOUND. */
  private statusOf(error: PredictError): number {
    if (error.reason === "path_not_found" && this.door === "grpc") return REFUSAL_STATUS.method_not_allowed.grpc;
    return REFUSAL_STATUS[error.reason].grpc;
  }

  private internal(cause: unknown): PredictError {
    this.deps.logger.error({ err: cause, door: this.door, method: this.method }, "unexpected error in a call");
    return new PredictError("internal", "internal error; the batcher's log has the details");
  }

  private readonly callerGone = (): void => {
    if (this.over) return;
    this.end("cancelled", 0);
    this.cancelWork();
  };

  private cancelWork(): void {
    this.cancelled = true;
    const { onCancel } = this;
    this.onCancel = undefined;
    try {
      onCancel?.();
    } catch (cause) {
      this.internal(cause);
    }
  }

  private end(outcome: CallOutcome, responseBytes: number): void {
    this.over = true;
    this.timer?.cancel();
    this.deps.metrics.callDone({
      door: this.door,
      method: this.method,
      outcome,
      durationMs: this.deps.clock.nowMs() - this.arrivedAtMs,
      requestBytes: this.call.request.length,
      responseBytes,
    });
  }
}

function deadlineError(): PredictError {
  return new PredictError(
    "deadline",
    "the deadline passed before the answer was ready; allow more time or send fewer rows",
  );
}
