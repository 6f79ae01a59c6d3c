/**
 * Why a write was refused.
 * - `invalid`: the record itself is wrong, whatever else the registry holds
 * - `not_found`: it names something that is not registered
 * - `exists`: it would make something that exists already with other content
 * - `conflict`: somebody else wrote since the caller looked
 * - `precondition`: the registry's present state does not allow it, such as a stage
 */
export type RegistryErrorCode = "invalid" | "not_found" | "exists" | "conflict" | "precondition";

/** A refused write; nothing was written. The message names the field, the problem and the remedy. */
export class RegistryError extends Error {
  override readonly name = "RegistryError";

  constructor(
    readonly code: RegistryErrorCode,
    message: string,
  ) {
    super(message);
  }
}
