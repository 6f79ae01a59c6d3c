import type { Tensor } from "../request.js";
import type { ServingPlan, TensorPlan } from "../transform/serving-plan.js";
import { splitTensors } from "./split.js";

/** What of an output differs from the spec, rows apart; undefined when nothing does. */
export function outputProblem(expected: TensorPlan, output: Tensor): string | undefined {
  const fits =
    output.datatype === expected.datatype &&
    output.shape.length === expected.shape.length &&
    expected.shape.every((size, index) => size === -1 || size === output.shape[index]);
  if (fits) return undefined;
  const want = `${expected.datatype} [${expected.shape.join(",")}]`;
  return `output "${expected.name}" is ${output.datatype} [${output.shape.join(",")}], the version's spec says ${want}`;
}

/**
 * Compares a whole answer with the spec.
 * @param rows rows that were sent
 * @returns what is wrong, for people; undefined when nothing is
 */
export function answerProblem(plan: ServingPlan, outputs: readonly Tensor[], rows: number): string | undefined {
  for (const expected of plan.outputs) {
    const output = outputs.find((candidate) => candidate.name === expected.name);
    if (output === undefined) return `output "${expected.name}" is missing in the model's answer`;
    const problem = outputProblem(expected, output);
    if (problem !== undefined) return problem;
  }
  try {
    splitTensors(outputs, [rows]);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
