import { status as GrpcStatus, type handleUnaryCall, type Metadata } from "@grpc/grpc-js";
import type { Logger } from "../platform/logger.js";
import { RegistryError, type RegistryErrorCode } from "../registry/registry-error.js";
import { checkToken, Unauthenticated } from "./bearer-token.js";

/** What every call of the admin port needs. */
export interface AdminCallDeps {
  /** What every call must bring as `authorization: Bearer <token>`. */
  readonly token: string;
  readonly logger: Logger;
  /** Counts calls by method and gRPC status. */
  readonly called?: (method: string, status: string) => void;
}

/** A refusal as gRPC says it. */
export interface Refusal {
  readonly code: GrpcStatus;
  readonly details: string;
}

export type Answered<Response> =
  | { readonly ok: true; readonly response: Response }
  | { readonly ok: false; readonly refusal: Refusal };

/** One call: the token first, then the work, and every failure as a status with one sentence. Never throws. */
export async function answerCall<Response>(
  method: string,
  deps: AdminCallDeps,
  metadata: Metadata,
  work: () => Response | Promise<Response>,
): Promise<Answered<Response>> {
  try {
    checkToken(metadata, deps.token);
    const response = await work();
    deps.called?.(method, "OK");
    return { ok: true, response };
  } catch (error) {
    const refusal = refusalOf(error);
    const status = GrpcStatus[refusal.code];
    deps.called?.(method, status);
    if (refusal.code === GrpcStatus.INTERNAL) deps.logger.error({ method, err: error }, "bug: an admin call failed");
    else deps.logger.info({ method, status, problem: refusal.details }, "admin call refused");
    return { ok: false, refusal };
  }
}

/** The same as a handler of a method with one request and one response. */
export function unary<Request, Response>(
  method: string,
  deps: AdminCallDeps,
  work: (request: Request) => Response | Promise<Response>,
): handleUnaryCall<Request, Response> {
  return (call, callback) => {
    void answerCall(method, deps, call.metadata, () => work(call.request)).then((answered) =>
      answered.ok ? callback(null, answered.response) : callback(answered.refusal),
    );
  };
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof Unauthenticated) return { code: GrpcStatus.UNAUTHENTICATED, details: error.message };
  if (error instanceof RegistryError) return { code: STATUS_OF_CODE[error.code], details: error.message };
  const problem = error instanceof Error ? error.message : String(error);
  return { code: GrpcStatus.INTERNAL, details: `the control plane failed: ${problem}; its log says more` };
}

const STATUS_OF_CODE: Readonly<Record<RegistryErrorCode, GrpcStatus>> = {
  invalid: GrpcStatus.INVALID_ARGUMENT,
  not_found: GrpcStatus.NOT_FOUND,
  exists: GrpcStatus.ALREADY_EXISTS,
  conflict: GrpcStatus.ABORTED,
  precondition: GrpcStatus.FAILED_PRECONDITION,
};
