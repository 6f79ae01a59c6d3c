import type { Hello, State } from "@servemesh/proto/gen/mesh/servemesh/control/v1/replica.js";
import { type ModelVersion, Replica, ReplicaState } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";

const DETAIL_MAX_CHARS = 1_024;

/** Everything that decides what the registry says of one connected batcher. */
export interface ReplicaFacts {
  readonly hello: Hello;
  /** The last one that was told; undefined before the first. */
  readonly told: State | undefined;
  /** Record of the version that the batcher serves; undefined while it is not registered. */
  readonly version: ModelVersion | undefined;
}

/**
 * The record of a connected batcher. READY stands only for a batcher that serves the registered version: one of an
 * unknown version, or with another artifact loaded, still starts as far as routing is concerned.
 */
export function replicaRecord({ hello, told, version }: ReplicaFacts): Replica {
  const record = (state: ReplicaState, detail: string): Replica =>
    Replica.fromPartial({
      model: hello.model,
      version: hello.version,
      id: hello.replicaId,
      address: hello.address,
      state,
      detail: detail.slice(0, DETAIL_MAX_CHARS),
      loadedDigest: told?.loadedDigest ?? "",
      tls: hello.tls,
    });
  if (version === undefined) {
    const reference = `${hello.model}:${hello.version}`;
    return record(ReplicaState.REPLICA_STATE_STARTING, `version ${reference} is not registered; register it`);
  }
  if (told === undefined) return record(ReplicaState.REPLICA_STATE_STARTING, "connected, but has not told its state");
  if (told.state === ReplicaState.REPLICA_STATE_READY && isOtherArtifact(told.loadedDigest, version.artifactDigest)) {
    return record(
      ReplicaState.REPLICA_STATE_STARTING,
      `serves artifact ${told.loadedDigest}, but the record says ${version.artifactDigest}; load that one`,
    );
  }
  return record(told.state, told.detail);
}

/** A digest that is not told, or not registered, proves nothing either way. */
function isOtherArtifact(loaded: string, registered: string): boolean {
  return loaded !== "" && registered !== "" && loaded !== registered;
}
