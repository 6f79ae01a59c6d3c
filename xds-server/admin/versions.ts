import { isDeepStrictEqual } from "node:util";
import type { MoveStageRequest } from "@servemesh/proto/gen/mesh/servemesh/control/v1/admin.js";
import {
  type Alias,
  ModelVersion,
  Stage,
  StageEvent,
} from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { formatKey, SEQ_MAX } from "../registry/keys.js";
import type { Registry } from "../registry/registry.js";
import { RegistryError } from "../registry/registry-error.js";
import { referenceOf } from "../registry/registry-view.js";
import type { Operation } from "../registry/store.js";
import { type Change, compareAndSet } from "./compare-and-set.js";
import { unknownModel } from "./models.js";
import { checkModelName, checkVersion, required, textToStore } from "./request-checks.js";
import { stageMoveProblem } from "./stage-order.js";

/** Who moves stages, as long as one token stands for all operators. */
const ACTOR = "admin token";
const REASON_MAX_CHARS = 1_024;

/**
 * Makes a version and its first stage event, together. A version never changes; the same content again is the same
 * request again, after an answer that was lost, and is answered alike.
 * @returns the revision at which the version was made
 */
export async function registerVersion(registry: Registry, asked: ModelVersion | undefined, now: Date): Promise<bigint> {
  const given = required("version", asked);
  checkModelName("version.model", given.model);
  checkVersion("version.version", given.version);
  const version: ModelVersion = { ...given, createdAt: given.createdAt ?? now };
  const key = { kind: "version", model: version.model, version: version.version } as const;
  const storeKey = formatKey(key);
  const value = textToStore(key, { kind: "version", value: version });
  const event = stageEvent({ ...key, seq: 1n }, Stage.STAGE_REGISTERED, "registered", now);
  const decide = (): Change<bigint | undefined> => {
    const present = registry.state.versions.get(referenceOf(version));
    if (present !== undefined && isSameContent(present.value, version)) {
      return { compares: [], operations: [], result: present.modRevision };
    }
    if (registry.modRevisionOf(storeKey) !== 0n) {
      const message = `version: ${referenceOf(version)} is registered with other content, and a version never changes; register another number`;
      throw new RegistryError("exists", message);
    }
    const model = { key: formatKey({ kind: "model", model: version.model }), target: "mod_revision" } as const;
    if (!registry.state.models.has(version.model)) throw unknownModel("version.model", version.model);
    return {
      compares: [
        { ...model, equals: registry.modRevisionOf(model.key) },
        { key: storeKey, target: "mod_revision", equals: 0n },
        { key: event.key, target: "mod_revision", equals: 0n },
      ],
      operations: [{ kind: "put", key: storeKey, value }, event.put],
      result: undefined,
    };
  };
  const { revision, result } = await compareAndSet(registry, decide);
  return result ?? revision;
}

/** The time at which a copy was sent is no content. */
function isSameContent(a: ModelVersion, b: ModelVersion): boolean {
  const content = (version: ModelVersion): unknown => ModelVersion.toJSON({ ...version, createdAt: undefined });
  return isDeepStrictEqual(content(a), content(b));
}

/** Appends a stage event, if the version is still in the stage from which it is moved. */
export async function moveStage(registry: Registry, request: MoveStageRequest, now: Date): Promise<StageEvent> {
  const { model, version, stage, reason } = request;
  checkModelName("model", model);
  checkVersion("version", version);
  if (reason.length > REASON_MAX_CHARS) {
    throw new RegistryError(
      "invalid",
      `reason has ${reason.length} characters, but at most ${REASON_MAX_CHARS} are possible; shorten it`,
    );
  }
  const reference = referenceOf(request);
  const { result } = await compareAndSet(registry, (): Change<StageEvent> => {
    if (!registry.state.versions.has(reference)) {
      throw new RegistryError("not_found", `version: ${reference} is not registered; register it, or check the number`);
    }
    const head = registry.stageHead(reference);
    const problem = stageMoveProblem(registry.state.stages.get(reference) ?? Stage.STAGE_UNSPECIFIED, stage);
    if (problem !== undefined) throw new RegistryError("precondition", `${reference}: ${problem}`);
    const user = stage === Stage.STAGE_ARCHIVED ? userOf(registry, request) : undefined;
    if (user !== undefined) {
      throw new RegistryError(
        "precondition",
        `${reference}: stage: ${user} still routes to it; take it out there before it is archived`,
      );
    }
    const event = stageEvent({ model, version, seq: (head?.seq ?? 0n) + 1n }, stage, reason, now);
    // The log only grows, so "the next number is free" means "the head is still the one that was seen".
    return {
      compares: [{ key: event.key, target: "mod_revision", equals: 0n }],
      operations: [event.put],
      result: event.value,
    };
  });
  return result;
}

/** An alias that would send traffic, or copies of it, to a version: `ranker@prod`. */
function userOf({ state }: Registry, version: { model: string; version: bigint }): string | undefined {
  const uses = (alias: Alias): boolean =>
    alias.fallback.includes(referenceOf(version)) ||
    (alias.model === version.model &&
      (alias.shadow?.version === version.version ||
        alias.split.some((member) => member.version === version.version && (member.weight ?? 0) > 0)));
  return [...state.aliases].find(([, { value }]) => uses(value))?.[0];
}

interface NewStageEvent {
  readonly key: string;
  readonly value: StageEvent;
  readonly put: Operation;
}

function stageEvent(
  { model, version, seq }: { readonly model: string; readonly version: bigint; readonly seq: bigint },
  stage: Stage,
  reason: string,
  at: Date,
): NewStageEvent {
  if (seq > SEQ_MAX) throw new RegistryError("precondition", `${model}:${version} has ${SEQ_MAX} stage events already`);
  const key = { kind: "stage", model, version, seq } as const;
  const value = StageEvent.fromPartial({ model, version, seq, stage, actor: ACTOR, reason, at });
  const storeKey = formatKey(key);
  return {
    key: storeKey,
    value,
    put: { kind: "put", key: storeKey, value: textToStore(key, { kind: "stage", value }) },
  };
}
