import type { AliasSays, ChangingMesh, LiveModel, Random } from "./changing-mesh-fixture.js";

const MODELS_MIN = 3;
const MODELS_MAX = 6;
const VERSIONS_MAX = 4;
const BATCHERS_MAX = 3;
const WEIGHT_MAX = 10;
/** Rolls until a move is found that is possible now; some always are. */
const ROLLS_MAX = 1_000;

type Move = (mesh: ChangingMesh, random: Random) => Promise<string | undefined>;

/** Legal changes of the registry, with how often each is drawn. Each gives what it did, or undefined when it is impossible now. */
const MOVES: readonly { readonly often: number; readonly move: Move }[] = [
  { often: 30, move: split },
  { often: 15, move: scaleUp },
  { often: 15, move: scaleDown },
  { often: 8, move: fallback },
  { often: 8, move: shadow },
  { often: 6, move: addVersion },
  { often: 6, move: promote },
  { often: 6, move: archive },
  { often: 5, move: gatewayRecord },
  { often: 5, move: sidecarScope },
  { often: 4, move: addModel },
  { often: 4, move: removeModel },
  { often: 3, move: renameModel },
];

/** Applies one change. @returns what it was, in words */
export async function moveAtRandom(mesh: ChangingMesh, random: Random): Promise<string> {
  const all = MOVES.reduce((sum, { often }) => sum + often, 0);
  for (let rolls = 0; rolls < ROLLS_MAX; rolls += 1) {
    let left = random(all);
    const drawn = MOVES.find(({ often }) => {
      left -= often;
      return left < 0;
    });
    const done = await drawn?.move(mesh, random);
    if (done !== undefined) return done;
  }
  throw new Error("no move is possible");
}

/** Adds models until there are enough to play with, all of them callable when this resolves. */
export async function addFirstModels(mesh: ChangingMesh, random: Random): Promise<void> {
  while (mesh.models.size < MODELS_MIN) await addModel(mesh, random);
  await mesh.settle();
  openAll(mesh);
}

/** Whatever every Envoy knows may be called. Call it after `settle`. */
export function openAll(mesh: ChangingMesh): void {
  for (const name of mesh.models.keys()) mesh.atGateway.callable.add(name);
  for (const name of mesh.shopModels) if (mesh.models.has(name)) mesh.atShop.callable.add(name);
}

async function split(mesh: ChangingMesh, random: Random): Promise<string | undefined> {
  const model = oneOf([...mesh.models.values()], random);
  if (model === undefined) return undefined;
  const weights = drawWeights(model, random);
  return weights && setAlias(mesh, model, { ...model.alias, weights }, "split");
}

/**
 * The primary is in production, and what is in staging gets at most a quarter. A split that names a version without a batcher
 * would wait for one, so none does.
 */
function drawWeights(model: LiveModel, random: Random): Map<number, number> | undefined {
  const weights = new Map([...model.ready.keys()].map((version) => [version, 0]));
  const versions = [...model.ready].filter(([, batchers]) => batchers.length > 0).map(([version]) => version);
  for (const version of versions) weights.set(version, random(2) * random(WEIGHT_MAX));
  const stable = versions.filter((version) => !model.staging.has(version));
  const total = stable.reduce((sum, version) => sum + (weights.get(version) ?? 0), 0);
  if (total === 0) return undefined;
  const canaries = versions.filter((version) => model.staging.has(version));
  // A third of the rest is a quarter of all; the primary must stay above each.
  const share = Math.floor(total / 3 / Math.max(1, canaries.length) / Math.max(1, stable.length));
  for (const version of canaries) weights.set(version, share === 0 ? 0 : random(share + 1));
  return weights;
}

async function fallback(mesh: ChangingMesh, random: Random): Promise<string | undefined> {
  const model = oneOf([...mesh.models.values()], random);
  if (model === undefined) return undefined;
  const others = [...mesh.models.values()].filter((other) => other !== model);
  const references = others.flatMap(({ name, ready, staging }) =>
    [...ready.keys()].filter((version) => !staging.has(version)).map((version) => `${name}:${version}`),
  );
  const drawn = [oneOf(references, random), oneOf(references, random)].slice(0, random(3));
  const chain = [...new Set(drawn.filter((reference) => reference !== undefined))];
  return setAlias(mesh, model, { ...model.alias, fallback: chain }, "fallback");
}

async function shadow(mesh: ChangingMesh, random: Random): Promise<string | undefined> {
  const model = oneOf([...mesh.models.values()], random);
  if (model === undefined) return undefined;
  const version = random(3) === 0 ? undefined : oneOf([...model.ready.keys()], random);
  return setAlias(mesh, model, { ...model.alias, shadow: version }, "shadow");
}

async function setAlias(
  mesh: ChangingMesh,
  model: LiveModel,
  alias: AliasSays,
  what: string,
): Promise<string | undefined> {
  if (!leavesAnswers(mesh, () => setAside(model, alias))) return undefined;
  await mesh.setAlias(model, alias);
  const weights = [...alias.weights].map(([version, weight]) => `${version}=${weight}`).join(" ");
  return `${what} ${model.name} ${weights} fallback ${alias.fallback.join() || "-"} shadow ${alias.shadow ?? "-"}`;
}

async function scaleUp(mesh: ChangingMesh, random: Random): Promise<string | undefined> {
  const place = oneOf(
    placesOf(mesh).filter(({ batchers }) => batchers < BATCHERS_MAX),
    random,
  );
  if (place === undefined) return undefined;
  await mesh.addBatcher(place.model, place.version);
  return `one more of ${place.model.name}:${place.version}`;
}

async function scaleDown(mesh: ChangingMesh, random: Random): Promise<string | undefined> {
  const place = oneOf(
    placesOf(mesh).filter(({ batchers }) => batchers > 0),
    random,
  );
  if (place === undefined) return undefined;
  const { model, version } = place;
  const fewer = (model.ready.get(version) ?? []).slice(1);
  if (!leavesAnswers(mesh, () => setAsideEntry(model.ready, version, fewer))) return undefined;
  await mesh.drainBatcher(model, version);
  return `one less of ${model.name}:${version}`;
}

async function addVersion(mesh: ChangingMesh, random: Random): Promise<string | undefined> {
  const model = oneOf(
    [...mesh.models.values()].filter(({ ready }) => ready.size < VERSIONS_MAX),
    random,
  );
  if (model === undefined) return undefined;
  const version = await mesh.addVersion(model);
  if (random(4) > 0) await mesh.addBatcher(model, version);
  return `version ${model.name}:${version}`;
}

async function promote(mesh: ChangingMesh, random: Random): Promise<string | undefined> {
  const staged = [...mesh.models.values()].flatMap((model) =>
    [...model.staging].map((version) => ({ model, version })),
  );
  const drawn = oneOf(staged, random);
  if (drawn === undefined) return undefined;
  await mesh.promote(drawn.model, drawn.version);
  return `${drawn.model.name}:${drawn.version} to production`;
}

async function archive(mesh: ChangingMesh, random: Random): Promise<string | undefined> {
  const place = oneOf(
    placesOf(mesh).filter(({ model, version }) => !isNamed(mesh, model, version)),
    random,
  );
  if (place === undefined) return undefined;
  await mesh.archive(place.model, place.version);
  return `${place.model.name}:${place.version} archived`;
}

async function gatewayRecord(mesh: ChangingMesh, random: Random): Promise<string> {
  const maxRequestBytes = BigInt(1 + random(8)) * 1_048_576n;
  const runtime = random(2) === 0 ? {} : { "servemesh.test": `${random(100)}` };
  await mesh.putGateway({ maxRequestBytes, runtime });
  return `gateway: ${maxRequestBytes} bytes, runtime ${JSON.stringify(runtime)}`;
}

async function sidecarScope(mesh: ChangingMesh, random: Random): Promise<string | undefined> {
  const name = oneOf([...mesh.models.keys()], random);
  if (name === undefined) return undefined;
  const isIn = mesh.shopModels.has(name);
  if (isIn && mesh.shopModels.size === 1) return undefined;
  if (isIn) await mesh.atShop.withdraw(name);
  await mesh.scopeShop(name, !isIn);
  return `the sidecar ${isIn ? "loses" : "gets"} ${name}`;
}

async function addModel(mesh: ChangingMesh, random: Random): Promise<string | undefined> {
  if (mesh.models.size >= MODELS_MAX) return undefined;
  const model = await mesh.addModel(Array.from({ length: 1 + random(2) }, () => 1 + random(2)));
  if (mesh.shopModels.size === 0 || random(2) === 0) await mesh.scopeShop(model.name, true);
  return `model ${model.name}`;
}

async function removeModel(mesh: ChangingMesh, random: Random): Promise<string | undefined> {
  const model = oneOf([...mesh.models.values()], random);
  if (model === undefined || mesh.models.size <= MODELS_MIN || isNamedByOthers(mesh, model)) return undefined;
  if (mesh.shopModels.size === 1 && mesh.shopModels.has(model.name)) return undefined;
  await Promise.all([mesh.atGateway.withdraw(model.name), mesh.atShop.withdraw(model.name)]);
  await mesh.removeModel(model);
  if (mesh.shopModels.has(model.name)) await mesh.scopeShop(model.name, false);
  return `no model ${model.name}`;
}

/** The same model under another name: callers go over when every Envoy knows it, and the old name is deleted then. */
async function renameModel(mesh: ChangingMesh, random: Random): Promise<string | undefined> {
  const old = oneOf([...mesh.models.values()], random);
  if (old === undefined || isNamedByOthers(mesh, old)) return undefined;
  const versions = [...old.ready.values()].map((batchers) => batchers.length);
  if (versions[0] === 0) versions[0] = 1;
  const next = await mesh.addModel(versions);
  if (mesh.shopModels.has(old.name)) await mesh.scopeShop(next.name, true);
  await mesh.settle();
  openAll(mesh);
  await Promise.all([mesh.atGateway.withdraw(old.name), mesh.atShop.withdraw(old.name)]);
  await mesh.removeModel(old);
  if (mesh.shopModels.has(old.name)) await mesh.scopeShop(old.name, false);
  return `${old.name} is ${next.name} now`;
}

/** Every version with its number of ready batchers. */
function placesOf(mesh: ChangingMesh): { model: LiveModel; version: number; batchers: number }[] {
  return [...mesh.models.values()].flatMap((model) =>
    [...model.ready].map(([version, { length: batchers }]) => ({ model, version, batchers })),
  );
}

function isNamed(mesh: ChangingMesh, model: LiveModel, version: number): boolean {
  const { weights, shadow: mirrored } = model.alias;
  const reference = `${model.name}:${version}`;
  const isFallback = [...mesh.models.values()].some(({ alias }) => alias.fallback.includes(reference));
  return (weights.get(version) ?? 0) > 0 || mirrored === version || isFallback;
}

function isNamedByOthers(mesh: ChangingMesh, { name }: LiveModel): boolean {
  const references = [...mesh.models.values()].flatMap(({ alias }) => alias.fallback);
  return references.some((reference) => reference.startsWith(`${name}:`));
}

/** Whether every model would still have a version that answers. */
function leavesAnswers(mesh: ChangingMesh, tryOut: () => () => void): boolean {
  const takeBack = tryOut();
  const all = [...mesh.models.values()].every((model) => mesh.answeringOf(model).size > 0);
  takeBack();
  return all;
}

function setAside(model: LiveModel, alias: AliasSays): () => void {
  const before = model.alias;
  model.alias = alias;
  return () => {
    model.alias = before;
  };
}

function setAsideEntry<Key, Value>(map: Map<Key, Value>, key: Key, value: Value): () => void {
  const before = map.get(key);
  map.set(key, value);
  return () => {
    if (before === undefined) map.delete(key);
    else map.set(key, before);
  };
}

function oneOf<Item>(items: readonly Item[], random: Random): Item | undefined {
  return items[random(Math.max(1, items.length))];
}
