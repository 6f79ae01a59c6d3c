/** Bounds on what one request may ask of the ingress. Every one ends in a clear refusal, none in a cut. */
export interface IngressLimits {
  /** Bytes of one request message on any door; more is `too_large`. Envoy's own limit stands before it. */
  readonly maxRequestBytes: number;
  /** Dimensions of one tensor. */
  readonly maxRank: number;
  /** Input tensors of one request; requested outputs as many. */
  readonly maxTensors: number;
  /** Parameters at one level (request, one input, one output). */
  readonly maxParameters: number;
  /** UTF-8 bytes of a parameter's string value. */
  readonly maxParameterBytes: number;
  /** UTF-8 bytes of a tensor's or parameter's name. */
  readonly maxNameBytes: number;
  /** UTF-8 bytes of the request id that the caller chose. */
  readonly maxIdBytes: number;
  /** Nesting of a JSON body. */
  readonly maxJsonDepth: number;
  /** Values (numbers, strings, arrays, objects) of a JSON body; a larger tensor belongs in the binary form. */
  readonly maxJsonValues: number;
  /** Time kept back from the caller's deadline so that our own refusal, with its reason, is the one that arrives. */
  readonly deadlineMarginMs: number;
}

export const DEFAULT_LIMITS: IngressLimits = {
  maxRequestBytes: 4 * 1024 * 1024,
  maxRank: 16,
  maxTensors: 256,
  maxParameters: 64,
  maxParameterBytes: 4096,
  maxNameBytes: 256,
  maxIdBytes: 256,
  maxJsonDepth: 32,
  maxJsonValues: 262_144,
  deadlineMarginMs: 2,
};
