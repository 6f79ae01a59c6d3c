import { ContextSlab } from "../proxy-wasm/index";
import { NONE } from "./config";
import { Reason } from "./reasons";

/** What is asked of the mesh, whatever the door. */
export namespace Kind {
  export const ServerLive: u32 = 1;
  export const ServerReady: u32 = 2;
  export const ServerMetadata: u32 = 3;
  /** Kinds from here on name a model. */
  export const ModelReady: u32 = 4;
  export const ModelMetadata: u32 = 5;
  export const ModelConfig: u32 = 6;
  export const ModelStatus: u32 = 7;
  export const Predict: u32 = 8;
}

/** Bits of `Call.flags`. */
export namespace Flag {
  export const Grpc: u32 = 1;
  /** The gate answered itself: leave the answer alone and never answer again. */
  export const Refused: u32 = 2;
  /** Headers are held back until the model's name has come with the body. */
  export const AwaitsBody: u32 = 4;
  /** The error body of the answer waits to be rewritten. */
  export const RewritesBody: u32 = 8;
  /** Envoy treats the caller as gRPC, although the gate does not serve its content type. */
  export const GrpcLike: u32 = 16;
  /** The call's priority is batch; interactive without. */
  export const Batch: u32 = 32;
}

/** What a client may wish for its budget, beside a number of ms. */
export namespace Wish {
  export const None: i32 = -1;
  export const Malformed: i32 = -2;
  export const Repeated: i32 = -3;
}

/** What the gate knows of one request, from its headers to the end of its stream. No addresses of host memory in here. */
@unmanaged
export class Call {
  flags: u32 = 0;
  kind: u32 = 0;
  tenant: u32 = 0;
  /** Configuration that `tenant` belongs to, pinned while the body is awaited; otherwise 0. */
  pinned: usize = 0;
  /** Wanted budget in ms, or a Wish. */
  wishMs: i32 = 0;
  model: u32 = 0;
  /** Alias that was resolved, or NONE for a pinned version. */
  alias: u32 = 0;
  version: u64 = 0;
  budgetMs: u32 = 0;
  /** Gate time so far, in ns. */
  spentNs: u64 = 0;
  /** Reason of the error answer whose body is being rewritten; reasons live for ever. */
  errorReason: Reason | null = null;

  has(flag: u32): bool {
    return (this.flags & flag) !== 0;
  }

  get namesModel(): bool {
    return this.kind >= Kind.ModelReady;
  }
}

const calls = new ContextSlab();
calls.init(offsetof<Call>());

/** The call of a stream, or null: a stream that Envoy answered before the gate saw it has none. */
export function findCall(id: u32): Call | null {
  const record = calls.find(id);
  return record === 0 ? null : changetype<Call>(record);
}

export function createCall(id: u32): Call {
  const call = changetype<Call>(calls.create(id));
  call.tenant = NONE;
  call.model = NONE;
  call.alias = NONE;
  call.wishMs = Wish.None;
  return call;
}

export function dropCall(id: u32): void {
  calls.drop(id);
}
