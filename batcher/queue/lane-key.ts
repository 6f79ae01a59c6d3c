import type { ParameterValue, Tensor } from "../request.js";

/** What decides whether two requests may share a batch. */
export interface LaneParts {
  readonly leg: "primary" | "shadow";
  /** What the model server gets. */
  readonly inputs: readonly Tensor[];
  readonly requestedOutputs: readonly string[];
  readonly parameters: ReadonlyMap<string, ParameterValue>;
}

/**
 * Equal keys may be merged. Different legs, sets of (optional) inputs, datatypes, shapes behind the batch dimension,
 * requested outputs or parameters never are: a merged call has one value of each, and "last wins" gives wrong answers.
 */
export function laneKey(parts: LaneParts): string {
  let inputs: string[] = [];
  for (const tensor of parts.inputs) {
    inputs.push(`${quote(tensor.name)}${tensor.datatype}[${tensor.shape.slice(1).join(",")}]`);
  }
  if (inputs.length > 1) inputs = inputs.sort();
  let key = `${parts.leg}|${inputs.join("")}`;
  if (parts.requestedOutputs.length > 0) key += `|${parts.requestedOutputs.map(quote).sort().join("")}`;
  if (parts.parameters.size > 0) key += `|${[...parts.parameters].map(parameterKey).sort().join("")}`;
  return key;
}

/** Length-prefixed, so that no two lists of names look alike when joined. */
function quote(text: string): string {
  return `${text.length}:${text}`;
}

function parameterKey([name, value]: [string, ParameterValue]): string {
  return `${quote(name)}${typeof value}${quote(String(value))}`;
}
