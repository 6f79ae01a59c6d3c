import { isAliasName, type ModelRef, parseModelRef, parseVersion } from "@servemesh/proto/model-ref";
import { PredictError } from "../request.js";
import { badInput, quote } from "./bad-input.js";
import type { ServedModel } from "./served-model.js";

/** What a call says about the model it wants, wherever the door has it. Empty strings are absent. */
export interface AskedModel {
  /** A model reference. */
  readonly model: string;
  /** A separate version pin (`model_version`, `/versions/{v}`). */
  readonly version: string;
  /** A separate alias pin (`/labels/{alias}`). */
  readonly label: string;
}

/**
 * Compares what the body or path asks for with the route on which the gate has let it through, never with the batcher's
 * own model: a fallback serves other models' routes. An explicit alias or version must equal the route's second
 * element, a bare name fits any.
 * @param route `x-servemesh-route`, undefined for a call without a gateway, which may only ask for what is served here
 * @throws PredictError `bad_input` for a reference that is malformed or differs, `model_not_found` on direct calls
 */
export function checkReference(asked: AskedModel, route: string | undefined, served: ServedModel): void {
  const reference = parseReference(asked.model);
  const pins = pinsOf(reference, asked);
  if (route === undefined) {
    checkDirect(reference.model, pins, served);
    return;
  }
  const [model, target] = route.split("/");
  if (reference.model !== model) {
    throw badInput(
      `model ${quote(reference.model)} differs from the route ${quote(route)} of the request; send one reference`,
    );
  }
  for (const pin of pins) {
    if (pin !== target) {
      throw badInput(
        `${quote(pin)} of model ${quote(asked.model)} differs from ${quote(target ?? "")} of the route; pin a model once`,
      );
    }
  }
}

function parseReference(text: string): ModelRef {
  if (text === "") throw badInput("model name is missing; send for example ranker, ranker@prod or ranker:41");
  const result = parseModelRef(text);
  if (!result.ok) throw badInput(result.problem);
  return result;
}

/** All explicit pins in the form in which routes have them. Several are fine as long as they agree. */
function pinsOf(reference: ModelRef, asked: AskedModel): string[] {
  const pins: string[] = [];
  if (reference.pin !== undefined) {
    pins.push(reference.pin.kind === "alias" ? reference.pin.alias : `${reference.pin.version}`);
  }
  if (asked.version !== "") {
    if (parseVersion(asked.version) === undefined) {
      throw badInput(`model version ${quote(asked.version)} is not a positive integer without leading zeros`);
    }
    pins.push(asked.version);
  }
  if (asked.label !== "") {
    if (!isAliasName(asked.label)) throw badInput(`label ${quote(asked.label)} is not an alias; send for example prod`);
    pins.push(asked.label);
  }
  return pins;
}

function checkDirect(model: string, pins: readonly string[], served: ServedModel): void {
  const wrong = pins.find((pin) => pin !== `${served.version}`);
  if (model === served.model && wrong === undefined) return;
  throw new PredictError(
    "model_not_found",
    `this batcher serves ${served.model}:${served.version} and has no aliases; ask the gateway for other names`,
  );
}
