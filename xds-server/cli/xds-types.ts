import {
  CLUSTER_TYPE,
  ENDPOINT_TYPE,
  EXTENSION_TYPE,
  LISTENER_TYPE,
  ROUTE_TYPE,
  RUNTIME_TYPE,
  SCOPE_TYPE,
  SECRET_TYPE,
  VIRTUAL_HOST_TYPE,
} from "../snapshot/resource-types.js";

/** What people call the types of resources, by type URL. */
const WORDS: ReadonlyMap<string, string> = new Map([
  [CLUSTER_TYPE, "cds"],
  [ENDPOINT_TYPE, "eds"],
  [LISTENER_TYPE, "lds"],
  [SCOPE_TYPE, "srds"],
  [ROUTE_TYPE, "rds"],
  [EXTENSION_TYPE, "ecds"],
  [SECRET_TYPE, "sds"],
  [RUNTIME_TYPE, "rtds"],
  [VIRTUAL_HOST_TYPE, "vhds"],
]);

export const TYPE_WORDS: readonly string[] = [...WORDS.values()];

/** `cds` for clusters and so on; a type without such a word keeps the last part of its name. */
export function typeWord(typeUrl: string): string {
  return WORDS.get(typeUrl) ?? typeUrl.slice(typeUrl.lastIndexOf(".") + 1);
}

/** The type URL of a word of `TYPE_WORDS`; empty for none. */
export function typeUrlOf(word: string | undefined): string {
  return [...WORDS].find(([, known]) => known === word)?.[0] ?? "";
}
