import type { ParameterValue } from "../request.js";
import type { JsonValue } from "./json/value.js";
import type { TypedContents } from "./typed-contents.js";

/** One entry of a shape as the caller wrote it. A bigint only outside the exact integers of `number`. */
export type Dimension = number | bigint;

/** An input's values in the form in which the door delivered them; converted only after all checks have passed. */
export type InputPayload =
  | { readonly kind: "raw"; readonly bytes: Uint8Array }
  | { readonly kind: "typed"; readonly contents: TypedContents }
  | {
      readonly kind: "json";
      readonly values: readonly JsonValue[];
      /** Lengths of the nested arrays of `values`, outermost first; undefined: one flat list in row-major order. */
      readonly nest: readonly number[] | undefined;
      /** `{"b64": "..."}` stands for bytes (TF-Serving only). */
      readonly base64: boolean;
    };

export interface InferInput {
  readonly name: string;
  /** As the caller wrote it; undefined where the protocol has none (TF-Serving) and the model's is meant. */
  readonly datatype: string | undefined;
  readonly shape: readonly Dimension[];
  readonly payload: InputPayload;
}

/** What every door decodes to: syntactically sound, but not yet compared with the model's spec. */
export interface InferCall {
  /** The reference as sent, e.g. `ranker@prod`; empty on REST, where the path has it. */
  readonly modelName: string;
  readonly modelVersion: string;
  readonly id: string;
  readonly parameters: ReadonlyMap<string, ParameterValue>;
  readonly inputs: readonly InferInput[];
  /** Names of the wanted outputs; empty means all. */
  readonly outputs: readonly string[];
}
