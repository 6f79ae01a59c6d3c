import { isAliasName, isModelName, parseVersion } from "@servemesh/proto/model-ref";

/** Everything of the registry lies under this prefix (DESIGN §4). */
export const REGISTRY_PREFIX = "/servemesh/v1/";

/** What a key is about. Formatting is injective: two keys never have one text. */
export type RecordKey =
  | { readonly kind: "model"; readonly model: string }
  | { readonly kind: "version"; readonly model: string; readonly version: bigint }
  | { readonly kind: "stage"; readonly model: string; readonly version: bigint; readonly seq: bigint }
  | { readonly kind: "alias"; readonly model: string; readonly alias: string }
  | { readonly kind: "tenant"; readonly tenant: string }
  | { readonly kind: "replica"; readonly model: string; readonly version: bigint; readonly id: string }
  | { readonly kind: "gateway"; readonly gateway: string };

/** A key that was read, one of a kind that is not used yet, or what is wrong with it. */
export type KeyResult =
  | { readonly ok: true; readonly key: RecordKey }
  | { readonly ok: false; readonly isReserved: true }
  | { readonly ok: false; readonly isReserved: false; readonly problem: string };

/** Stage events sort by their number also as text, which is what `etcdctl get --prefix` shows. */
const SEQ_DIGITS = 8;
const SEQ = /^[0-9]{8}$/;
const REPLICA_ID = /^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$/;
/** Written by later parts of servemesh; today's control plane leaves them alone. */
const RESERVED = new Set(["deployments", "rollouts", "decisions", "trust", "leader"]);

/** Largest number of a stage event. */
export const SEQ_MAX = 10n ** BigInt(SEQ_DIGITS) - 1n;

/** True for a replica's id: letters, digits, ".", "_" and "-", at most 128. */
export function isReplicaId(text: string): boolean {
  return REPLICA_ID.test(text);
}

/** True for a tenant's or a gateway's name, which follow the grammar of model names. */
export function isPlainName(text: string): boolean {
  return isModelName(text);
}

/** The one text of a key, with the prefix. */
export function formatKey(key: RecordKey): string {
  return REGISTRY_PREFIX + pathOf(key);
}

function pathOf(key: RecordKey): string {
  switch (key.kind) {
    case "model":
      return `models/${key.model}`;
    case "version":
      return `versions/${key.model}/${key.version}`;
    case "stage":
      return `stages/${key.model}/${key.version}/${key.seq.toString().padStart(SEQ_DIGITS, "0")}`;
    case "alias":
      return `aliases/${key.model}/${key.alias}`;
    case "tenant":
      return `tenants/${key.tenant}`;
    case "replica":
      return `replicas/${key.model}/${key.version}/${key.id}`;
    case "gateway":
      return `gateways/${key.gateway}`;
  }
}

/** Reads a key. Never throws, whatever lies in the store; `formatKey` of the result gives the same text back. */
export function parseKey(text: string): KeyResult {
  const parts = text.startsWith(REGISTRY_PREFIX) ? text.slice(REGISTRY_PREFIX.length).split("/") : [];
  if (RESERVED.has(parts[0] ?? "")) return { ok: false, isReserved: true };
  const key = keyOf(parts);
  if (key !== undefined) return { ok: true, key };
  return {
    ok: false,
    isReserved: false,
    problem: "the key is none of the registry's, or a name in it breaks its grammar; delete it",
  };
}

function keyOf(parts: readonly string[]): RecordKey | undefined {
  const [folder = "", name = "", third = "", fourth = ""] = parts;
  if (parts.length === 2 && isModelName(name)) {
    if (folder === "models") return { kind: "model", model: name };
    if (folder === "tenants") return { kind: "tenant", tenant: name };
    if (folder === "gateways") return { kind: "gateway", gateway: name };
  }
  if (!isModelName(name)) return undefined;
  if (parts.length === 3 && folder === "aliases" && isAliasName(third)) {
    return { kind: "alias", model: name, alias: third };
  }
  const version = parseVersion(third);
  if (version === undefined) return undefined;
  if (parts.length === 3 && folder === "versions") return { kind: "version", model: name, version };
  if (parts.length === 4 && folder === "replicas" && isReplicaId(fourth)) {
    return { kind: "replica", model: name, version, id: fourth };
  }
  if (parts.length === 4 && folder === "stages" && SEQ.test(fourth) && BigInt(fourth) > 0n) {
    return { kind: "stage", model: name, version, seq: BigInt(fourth) };
  }
  return undefined;
}
