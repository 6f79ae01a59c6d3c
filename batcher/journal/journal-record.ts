import type {
  Record as JournalRecord,
  Tensor as JournalTensor,
} from "@servemesh/proto/gen/mesh/servemesh/journal/v1/journal.js";
import type { PredictRequest, StageTimings, Tensor } from "../request.js";

/** What is known of a request when it ends. */
export interface JournalFacts {
  readonly request: PredictRequest;
  /** Empty when the request never got that far. */
  readonly upstream: readonly Tensor[];
  readonly outputs: readonly Tensor[];
  readonly timings: StageTimings;
  /** Empty on success. */
  readonly reason: string;
  readonly cacheHit: boolean;
  readonly batchSize: number;
  /** `ranker:41`. */
  readonly servedBy: string;
  readonly at: Date;
}

/** Whether a request belongs in the journal: both legs of a mirrored request do, nothing else. */
export function isJournaled(request: PredictRequest): boolean {
  return request.context.leg === "shadow" || request.context.paired;
}

/** The record of one leg. Tensor bytes are copied up to the limit, so that no request's buffers are kept alive. */
export function journalRecord(facts: JournalFacts, maxTensorBytes: number): JournalRecord {
  const { context, inputs } = facts.request;
  const stageUs: { [stage: string]: number } = {};
  for (const [stage, ms] of Object.entries(facts.timings)) stageUs[stage] = Math.max(0, Math.round(ms * 1000));
  const tensors = (list: readonly Tensor[]): JournalTensor[] =>
    list.map((tensor) => journalTensor(tensor, maxTensorBytes));
  return {
    requestId: context.requestId,
    leg: context.leg,
    tenant: context.tenant,
    route: context.route,
    servedBy: facts.servedBy,
    at: facts.at,
    inputs: tensors(inputs),
    // Without features and transform they are the inputs again.
    upstreamInputs: facts.upstream === inputs ? [] : tensors(facts.upstream),
    outputs: tensors(facts.outputs),
    stageUs,
    reason: facts.reason,
    cacheHit: facts.cacheHit,
    batchSize: facts.batchSize,
  };
}

function journalTensor(tensor: Tensor, maxBytes: number): JournalTensor {
  const kept = Math.min(tensor.data.length, maxBytes);
  return {
    name: tensor.name,
    datatype: tensor.datatype,
    shape: tensor.shape.map(BigInt),
    data: Buffer.from(tensor.data.subarray(0, kept)),
    truncatedBytes: tensor.data.length - kept,
  };
}

/** Bytes that a record holds in memory, roughly. */
export function recordBytes(record: JournalRecord): number {
  let bytes = 512 + 2 * (record.requestId.length + record.tenant.length + record.route.length);
  for (const list of [record.inputs, record.upstreamInputs, record.outputs]) {
    for (const tensor of list) bytes += 128 + tensor.data.length;
  }
  return bytes;
}
