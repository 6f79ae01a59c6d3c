import type { SplitMember } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { type ModelRef, parseModelRef, parseVersion } from "@servemesh/proto/model-ref";
import { InvalidArgumentError } from "commander";

const UINT32_MAX = 2 ** 32 - 1;

/** `41=95,42=5`: versions and their weights, in this order. */
export function parseSplit(text: string): SplitMember[] {
  return parseList(text).map((part) => {
    const [versionText = "", weightText = "", ...rest] = part.split("=");
    const version = parseVersion(versionText);
    if (version === undefined || rest.length > 0 || !/^[0-9]{1,10}$/.test(weightText)) {
      throw new InvalidArgumentError(`"${part}" is not version=weight; write for example 41=95,42=5`);
    }
    return { version, weight: parseWhole(weightText, UINT32_MAX) };
  });
}

/** `ranker` (its default alias) or `ranker@canary`. */
export function parseAliasRef(text: string): { model: string; alias: string } {
  const { model, pin } = parseRef(text);
  if (pin?.kind === "version") {
    throw new InvalidArgumentError(
      `"${text}" names a version, which never changes; write an alias such as ${model}@prod`,
    );
  }
  return { model, alias: pin?.alias ?? "" };
}

/** `ranker` alone. */
export function parseModelName(text: string): string {
  const { model, pin } = parseRef(text);
  if (pin !== undefined) throw new InvalidArgumentError(`"${text}" has a pin; write the model alone, ${model}`);
  return model;
}

/** Comma-separated texts; none may be empty. */
export function parseList(text: string): string[] {
  const parts = text.split(",").map((part) => part.trim());
  if (parts.includes("")) throw new InvalidArgumentError(`"${text}" has an empty entry; write a,b without spaces`);
  return parts;
}

/** A version's number. */
export function parseVersionArgument(text: string): bigint {
  const version = parseVersion(text);
  if (version === undefined) throw new InvalidArgumentError(`"${text}" is no version; write a number from 1 on`);
  return version;
}

/** Milliseconds as a whole number. */
export function parseMs(text: string): number {
  return parseWhole(text, UINT32_MAX);
}

/** A revision that was shown before, 0 or -1. */
export function parseRevision(text: string): bigint {
  if (!/^(-1|0|[1-9][0-9]{0,17})$/.test(text)) {
    throw new InvalidArgumentError(
      `"${text}" is no revision; write the one that was shown, 0 for a new alias, or -1 for any`,
    );
  }
  return BigInt(text);
}

function parseWhole(text: string, max: number): number {
  const value = Number(text);
  if (/^[0-9]{1,10}$/.test(text) && value <= max) return value;
  throw new InvalidArgumentError(`"${text}" must be a whole number from 0 to ${max}`);
}

function parseRef(text: string): ModelRef {
  const parsed = parseModelRef(text);
  if (!parsed.ok) throw new InvalidArgumentError(parsed.problem);
  return parsed;
}
