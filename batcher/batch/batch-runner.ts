import { rowsOf } from "../element-bytes.js";
import type { Clock } from "../platform/clock.js";
import { type ParameterValue, PredictError, type Tensor } from "../request.js";
import type { ServingPlan } from "../transform/serving-plan.js";
import { type MergedTensor, mergeTensors } from "./merge.js";
import { SplitError, splitTensors } from "./split.js";

/** A request inside a batch. */
export interface BatchMember {
  /** False once the caller has its answer or has gone. */
  readonly live: boolean;
  readonly rows: number;
  /** What the model server gets. */
  readonly tensors: readonly Tensor[];
  /** Empty means all. */
  readonly requestedOutputs: readonly string[];
  readonly parameters: ReadonlyMap<string, ParameterValue>;
  readonly deadlineAtMs: number;
  /** The batch leaves for the model server. */
  sent(batchRows: number): void;
  succeed(answer: MemberAnswer): void;
  fail(error: PredictError): void;
}

/** One request's share of a batch's answer. */
export interface MemberAnswer {
  /** Exactly the requested outputs, in the requested order; slices of the batch's answer. */
  readonly outputs: readonly Tensor[];
  readonly parameters: ReadonlyMap<string, ParameterValue>;
  readonly batchRows: number;
  readonly inferMs: number;
  readonly demuxMs: number;
}

/** A failed call, as far as a batch must tell failures apart. */
export interface InferFailure {
  /** The server refuses the input, so a neighbour may be the one to blame. */
  readonly rejected: boolean;
  readonly error: PredictError;
}

export interface InferAnswer {
  readonly outputs: readonly Tensor[];
  readonly parameters: ReadonlyMap<string, ParameterValue>;
}

export interface BatchRunnerDeps {
  readonly clock: Clock;
  readonly plan: ServingPlan;
  /** One call to the model server; never rejects. */
  readonly infer: (
    inputs: readonly MergedTensor[],
    outputs: readonly string[],
    parameters: ReadonlyMap<string, ParameterValue>,
    deadlineAtMs: number,
  ) => Promise<InferAnswer | InferFailure>;
  /** What differs from the spec in one output, rows apart. */
  readonly outputProblem: (output: Tensor) => string | undefined;
  /** An answer came for a request that had left. */
  readonly late: () => void;
  /** Rows and duration of one answered call. */
  readonly answered: (rows: number, inferMs: number) => void;
  /** Longest time that an abandoned call may hold its slot beyond its members' deadlines, in ms. */
  readonly graceMs: number;
  /** Limit of a call whose members have no deadline, in ms. */
  readonly maxCallMs: number;
}

/**
 * Runs one batch: merges, calls, divides. A refused mixed batch is tried again member by member, once, inside the same
 * slot and within the deadlines, so that one bad request never fails its neighbours. An answer that does not divide fails
 * all members: partial guesses could hand one caller another's rows.
 *
 * A call is not cancelled when its members have gone, and may outlive their deadlines: the model server runs what it was
 * given to the end, so the slot is only free when it has answered. Else an overloaded server would be sent ever more.
 */
export async function runBatch(members: readonly BatchMember[], deps: BatchRunnerDeps): Promise<void> {
  const live = members.filter((member) => member.live);
  const failure = await attempt(live, deps);
  if (failure === undefined) return;
  const left = live.filter((member) => member.live);
  if (!failure.rejected || live.length < 2) {
    for (const member of left) member.fail(failure.error);
    return;
  }
  for (const member of left) {
    if (!member.live) continue;
    const single = await attempt([member], deps);
    if (single !== undefined && member.live) member.fail(single.error);
  }
}

async function attempt(members: readonly BatchMember[], deps: BatchRunnerDeps): Promise<InferFailure | undefined> {
  const first = members[0];
  if (first === undefined) return undefined;
  const { clock } = deps;
  const rows = members.reduce((sum, member) => sum + member.rows, 0);
  const outputs =
    first.requestedOutputs.length > 0 ? first.requestedOutputs : deps.plan.outputs.map((output) => output.name);
  const sentAtMs = clock.nowMs();
  for (const member of members) member.sent(rows);
  let answer: InferAnswer | InferFailure;
  try {
    const merged = mergeTensors(members.map((member) => member.tensors));
    answer = await deps.infer(merged, outputs, first.parameters, callDeadline(members, sentAtMs, deps));
  } catch (error) {
    return { rejected: false, error: internal(error) };
  }
  const answeredAtMs = clock.nowMs();
  for (const member of members) if (!member.live) deps.late();
  if ("error" in answer) return answer;
  deps.answered(rows, answeredAtMs - sentAtMs);
  return divide(members, answer, deps, { rows, sentAtMs, answeredAtMs });
}

interface CallFacts {
  readonly rows: number;
  readonly sentAtMs: number;
  readonly answeredAtMs: number;
}

function divide(
  members: readonly BatchMember[],
  answer: InferAnswer,
  deps: BatchRunnerDeps,
  facts: CallFacts,
): InferFailure | undefined {
  try {
    for (const output of answer.outputs) {
      const problem = deps.outputProblem(output);
      if (problem !== undefined) throw new SplitError(problem);
    }
    const shares = splitTensors(
      answer.outputs,
      members.map((member) => member.rows),
    );
    const wanted = members.map((member, index) => pickOutputs(member, shares[index] ?? [], deps.plan));
    const demuxMs = deps.clock.nowMs() - facts.answeredAtMs;
    const inferMs = facts.answeredAtMs - facts.sentAtMs;
    for (const [index, member] of members.entries()) {
      const outputs = wanted[index] ?? [];
      if (member.live)
        member.succeed({ outputs, parameters: answer.parameters, batchRows: facts.rows, inferMs, demuxMs });
    }
    return undefined;
  } catch (error) {
    return { rejected: false, error: internal(error) };
  }
}

function pickOutputs(member: BatchMember, share: readonly Tensor[], plan: ServingPlan): Tensor[] {
  const names =
    member.requestedOutputs.length > 0 ? member.requestedOutputs : plan.outputs.map((output) => output.name);
  return names.map((name) => {
    const output = share.find((tensor) => tensor.name === name);
    if (output === undefined) throw new SplitError(`output "${name}": missing in the model's answer`);
    return output;
  });
}

/** The most patient member decides, so that none is cut short by another; each member's own deadline is watched apart. */
function callDeadline(members: readonly BatchMember[], nowMs: number, deps: BatchRunnerDeps): number {
  let latest = nowMs;
  for (const member of members) latest = Math.max(latest, member.deadlineAtMs);
  return Number.isFinite(latest) ? latest + deps.graceMs : nowMs + deps.maxCallMs;
}

function internal(error: unknown): PredictError {
  if (error instanceof PredictError) return error;
  return new PredictError("internal", error instanceof Error ? error.message : String(error));
}

/** Rows of a request's tensors: those of the first. */
export function requestRows(tensors: readonly Tensor[]): number {
  const first = tensors[0];
  return first === undefined ? 0 : rowsOf(first);
}
