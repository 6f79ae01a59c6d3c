import { isAliasName, isModelName } from "@servemesh/proto/model-ref";
import { formatKey, isPlainName, type RecordKey } from "../registry/keys.js";
import { formatRecord, parseRecord, type RegistryRecord, recordProblems } from "../registry/records.js";
import { RegistryError } from "../registry/registry-error.js";
import { shown } from "../registry/rule-report.js";
import { VALUE_MAX_BYTES } from "../registry/store.js";

/*
 * What a request must hold before anything is looked up. Each refusal is a RegistryError "invalid" of one sentence.
 */

/** @throws RegistryError when a message field is absent */
export function required<T>(field: string, value: T | undefined): T {
  if (value === undefined) throw new RegistryError("invalid", `${field} is missing; send it`);
  return value;
}

/** @throws RegistryError when the text is no model name */
export function checkModelName(field: string, text: string): void {
  if (isModelName(text)) return;
  throw new RegistryError("invalid", `${field} ${shown(text)} must match [a-z0-9][a-z0-9._-]{0,62}; write such a name`);
}

/** @throws RegistryError when the text is no name of a tenant or a gateway */
export function checkPlainName(field: string, text: string): void {
  if (isPlainName(text)) return;
  throw new RegistryError("invalid", `${field} ${shown(text)} must match [a-z0-9][a-z0-9._-]{0,62}; write such a name`);
}

/** @throws RegistryError when the text is no alias */
export function checkAliasName(field: string, text: string): void {
  if (isAliasName(text)) return;
  throw new RegistryError("invalid", `${field} ${shown(text)} must match [a-z][a-z0-9-]{0,31}; write such a name`);
}

/** @throws RegistryError when the number is no version */
export function checkVersion(field: string, version: bigint): void {
  if (version >= 1n) return;
  throw new RegistryError("invalid", `${field} is ${version} but versions count from 1; write the version's number`);
}

/**
 * The text to store for a record.
 * @throws RegistryError with everything that is wrong with the record itself
 */
export function textToStore(key: RecordKey, record: RegistryRecord): string {
  const problems = recordProblems(key, record);
  if (problems.length > 0) throw new RegistryError("invalid", `${record.kind}: ${problems.join("; ")}`);
  const text = encode(record);
  const bytes = Buffer.byteLength(text);
  if (bytes > VALUE_MAX_BYTES) {
    throw new RegistryError(
      "invalid",
      `${record.kind}: the record has ${bytes} bytes, above ${VALUE_MAX_BYTES}; make it smaller`,
    );
  }
  // What is written must be readable again, whatever the rules above forgot.
  const { errors } = parseRecord(key, text);
  if (errors.length === 0) return text;
  throw new RegistryError("invalid", `${record.kind}: ${errors.join("; ")} (at ${formatKey(key)})`);
}

function encode(record: RegistryRecord): string {
  try {
    return formatRecord(record);
  } catch (error) {
    // Dates are the one thing that cannot always be written.
    throw new RegistryError(
      "invalid",
      `${record.kind}: ${(error as Error).message}; write times within the years 1 to 9999`,
    );
  }
}
