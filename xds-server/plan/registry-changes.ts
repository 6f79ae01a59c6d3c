import type {
  Alias,
  Model,
  ModelVersion,
  Replica,
  Stage,
} from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { changesBetween, type EntryChange } from "../platform/layered-map.js";
import type { Finding, RegistryState, Revisioned } from "../registry/state.js";

/** What differs between two registry states, record by record. */
export interface RegistryChanges {
  readonly models: readonly EntryChange<Revisioned<Model>>[];
  readonly versions: readonly EntryChange<Revisioned<ModelVersion>>[];
  readonly stages: readonly EntryChange<Stage>[];
  readonly aliases: readonly EntryChange<Revisioned<Alias>>[];
  readonly replicas: readonly EntryChange<Revisioned<Replica>>[];
  /** Whether a finding came or went: then a record that is absent may have become unreadable, or the other way round. */
  readonly findings: boolean;
}

/** Records that are the same object are the same record: states are immutable and share what did not change. */
export function changesOf(before: RegistryState, after: RegistryState): RegistryChanges {
  return {
    models: changesBetween(before.models, after.models),
    versions: changesBetween(before.versions, after.versions),
    stages: changesBetween(before.stages, after.stages),
    aliases: changesBetween(before.aliases, after.aliases),
    replicas: changesBetween(before.replicas, after.replicas),
    findings: !areEqual(before.findings, after.findings),
  };
}

/** True when a record came or went, so that others may have lost or found what they belong to. */
export function haveNamesChanged({ models, versions, aliases }: RegistryChanges): boolean {
  return [models, versions, aliases].some((changes: readonly EntryChange<unknown>[]) =>
    changes.some(({ before, after }) => before === undefined || after === undefined),
  );
}

function areEqual(before: readonly Finding[], after: readonly Finding[]): boolean {
  if (before === after) return true;
  if (before.length !== after.length) return false;
  return before.every((finding, index) => {
    const other = after[index] as Finding;
    return (
      finding.severity === other.severity && finding.subject === other.subject && finding.message === other.message
    );
  });
}
