import { changesBetween, LayeredMap } from "../platform/layered-map.js";
import type { Resource } from "./resource.js";
import { EMPTY_SUM, minusResource, plusResource, type TypeSum } from "./type-version.js";

/** How messages of one type become resources. */
export interface TypeCodec<M> {
  nameOf(message: M): string;
  encode(message: M): Resource;
}

/** All resources of one type, with the messages that they were made from. Immutable. */
export interface TypeResources<M> {
  readonly messages: readonly M[];
  /** In the order of their names. */
  readonly byName: LayeredMap<Resource>;
  readonly sum: TypeSum;
  /** Names that were given twice; the first one counts. */
  readonly duplicates: readonly string[];
}

/**
 * Encodes what changed. A message that is the same object as before is not looked at; a new one with equal content keeps
 * the resource that was there. When only contents changed, the work is that of the changed ones.
 */
export function collectType<M>(
  messages: readonly M[],
  codec: TypeCodec<M>,
  before: TypeResources<M> | undefined,
): TypeResources<M> {
  if (before === undefined || before.duplicates.length > 0) return collectAll(messages, codec, undefined);
  if (messages === before.messages) return before;
  const replaced = replacements(messages, before.messages, codec);
  if (replaced === undefined) return collectAll(messages, codec, before);
  let { sum } = before;
  const changes: [string, Resource][] = [];
  for (const message of replaced) {
    const resource = codec.encode(message);
    const old = before.byName.get(resource.name);
    if (old === undefined || old.version === resource.version) continue;
    sum = plusResource(minusResource(sum, old), resource);
    changes.push([resource.name, resource]);
  }
  const byName = changes.length === 0 ? before.byName : before.byName.with(changes);
  return { messages, byName, sum, duplicates: [] };
}

/** Messages that are new under a name that was there; undefined when names came, went or moved. */
function replacements<M>(now: readonly M[], before: readonly M[], { nameOf }: TypeCodec<M>): M[] | undefined {
  if (now.length !== before.length) return undefined;
  const replaced: M[] = [];
  for (let index = 0; index < now.length; index++) {
    const message = now[index] as M;
    if (message === before[index]) continue;
    if (nameOf(message) !== nameOf(before[index] as M)) return undefined;
    replaced.push(message);
  }
  return replaced;
}

function collectAll<M>(
  messages: readonly M[],
  codec: TypeCodec<M>,
  before: TypeResources<M> | undefined,
): TypeResources<M> {
  const encodedBefore = new Set(before?.messages ?? []);
  const duplicates: string[] = [];
  const byName = new Map<string, Resource>();
  let sum = EMPTY_SUM;
  const named = messages.map((message) => ({ name: codec.nameOf(message), message }));
  for (const { name, message } of named.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))) {
    if (byName.has(name)) {
      duplicates.push(name);
      continue;
    }
    const old = before?.byName.get(name);
    const encoded = old !== undefined && encodedBefore.has(message) ? old : codec.encode(message);
    const resource = old?.version === encoded.version ? old : encoded;
    byName.set(name, resource);
    sum = plusResource(sum, resource);
  }
  // Names that came and went may leave everything as it was.
  const isSame = before !== undefined && sum === before.sum && changesBetween(before.byName, byName).length === 0;
  return { messages, byName: isSame ? before.byName : LayeredMap.over(byName), sum, duplicates };
}
