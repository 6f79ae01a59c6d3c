import assert from "node:assert/strict";
import type { Lease, Store, WatchBatch } from "./store.js";

/** How the contract gets at an adapter. */
export interface StoreHarness {
  /** An empty store, closed by the harness after the case. */
  open(): Promise<Store>;
  /** Ends the process that used the store, as far as the store can tell, and opens the same data again. */
  reopen(store: Store): Promise<Store>;
  /** Lets this much time pass for the store's leases, in ms. */
  pass(ms: number): Promise<void>;
}

export interface StoreContractCase {
  readonly name: string;
  run(harness: StoreHarness): Promise<void>;
}

const LEASE_TTL_MS = 30_000;

/** What every adapter must do. Free of a test framework, so that each adapter's test file can run it its own way. */
export const storeContract: readonly StoreContractCase[] = [
  { name: "counts one revision per transaction that writes", run: countsRevisions },
  { name: "lists a prefix sorted, with both revisions of each key", run: listsPrefix },
  { name: "writes nothing when one comparison fails", run: comparesBeforeWriting },
  { name: "compares absence, creation and last write", run: comparesRevisions },
  { name: "lets exactly one of two equal compare-and-sets win", run: oneOfTwoWins },
  { name: "refuses a transaction that writes a key twice or is too large", run: refusesBadTransactions },
  { name: "tells watchers each revision once, whole and in order", run: watchesWholeRevisions },
  { name: "loses nothing between list and watch", run: watchesFromThePast },
  { name: "tells only of the watched prefix, and nothing after close", run: watchesPrefixOnly },
  { name: "says compacted when the history does not reach back", run: saysCompacted },
  { name: "keeps items and revisions over a restart", run: survivesRestart },
  { name: "deletes a revoked lease's keys in one revision, and no others", run: revokesLease },
  { name: "deletes the keys of a process that ended after the lease's time", run: expiresAfterRestart },
  { name: "keeps a key that was written again under a living lease", run: keepsConfirmedKeys },
  { name: "keeps its own leases alive", run: keepsLeasesAlive },
  { name: "refuses a lease that is over", run: refusesEndedLease },
];

async function put(store: Store, key: string, value: string, lease?: Lease): Promise<bigint> {
  const operation = { kind: "put", key, value, ...(lease === undefined ? {} : { lease: lease.id }) } as const;
  const { succeeded, revision } = await store.txn([], [operation]);
  assert.equal(succeeded, true);
  return revision;
}

async function valuesOf(store: Store, prefix: string): Promise<Record<string, string>> {
  const { items } = await store.list(prefix);
  return Object.fromEntries(items.map((item) => [item.key, item.value]));
}

/** Waits for what a watcher is told, without a clock: the store decides when. */
async function until(isReached: () => boolean): Promise<void> {
  for (let turn = 0; turn < 2_000; turn += 1) {
    if (isReached()) return;
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  assert.fail("the store did not get there in time");
}

function record(store: Store, prefix: string, fromRevision: bigint) {
  const batches: WatchBatch[] = [];
  let compactions = 0;
  const watch = store.watch(prefix, fromRevision, {
    changed: (batch) => batches.push(batch),
    compacted: () => {
      compactions += 1;
    },
  });
  return { batches, watch, compactions: () => compactions };
}

function describeEvents(batch: WatchBatch | undefined): string[] {
  return (batch?.events ?? []).map((event) =>
    event.kind === "put" ? `${event.item.key}=${event.item.value}` : `-${event.key}`,
  );
}

async function countsRevisions(harness: StoreHarness): Promise<void> {
  const store = await harness.open();
  const { revision: start } = await store.list("/a/");
  const first = await put(store, "/a/1", "x");
  assert.ok(first > start);
  const both = await store.txn(
    [],
    [
      { kind: "put", key: "/a/1", value: "y" },
      { kind: "put", key: "/a/2", value: "z" },
    ],
  );
  assert.equal(both.revision, first + 1n);
  const nothing = await store.txn([], [{ kind: "delete", key: "/a/absent" }]);
  assert.deepEqual(nothing, { succeeded: true, revision: both.revision });
  assert.equal((await store.list("/a/")).revision, both.revision);
}

async function listsPrefix(harness: StoreHarness): Promise<void> {
  const store = await harness.open();
  for (const key of ["/p/b", "/p/a", "/q/a", "/p", "/p0"]) await put(store, key, key);
  const again = await put(store, "/p/b", "new");
  const { items } = await store.list("/p/");
  assert.deepEqual(
    items.map((item) => item.key),
    ["/p/a", "/p/b"],
  );
  assert.equal(items[1]?.modRevision, again);
  assert.ok((items[1]?.createRevision ?? 0n) < again);
  assert.equal(items[0]?.createRevision, items[0]?.modRevision);
}

async function comparesBeforeWriting(harness: StoreHarness): Promise<void> {
  const store = await harness.open();
  const revision = await put(store, "/a", "x");
  const result = await store.txn(
    [
      { key: "/a", target: "mod_revision", equals: revision },
      { key: "/b", target: "mod_revision", equals: revision },
    ],
    [{ kind: "put", key: "/a", value: "y" }],
  );
  assert.deepEqual(result, { succeeded: false, revision });
  assert.deepEqual(await valuesOf(store, "/"), { "/a": "x" });
}

async function comparesRevisions(harness: StoreHarness): Promise<void> {
  const store = await harness.open();
  const absent = { key: "/a", target: "create_revision", equals: 0n } as const;
  const made = await store.txn([absent], [{ kind: "put", key: "/a", value: "1" }]);
  assert.equal(made.succeeded, true);
  assert.equal((await store.txn([absent], [{ kind: "put", key: "/a", value: "2" }])).succeeded, false);
  const changed = await put(store, "/a", "3");
  const created = { key: "/a", target: "create_revision", equals: made.revision } as const;
  const modified = { key: "/a", target: "mod_revision", equals: changed } as const;
  const removed = await store.txn([created, modified], [{ kind: "delete", key: "/a" }]);
  assert.equal(removed.succeeded, true);
  const remade = await put(store, "/a", "4");
  assert.equal((await store.list("/a")).items[0]?.createRevision, remade);
}

async function oneOfTwoWins(harness: StoreHarness): Promise<void> {
  const store = await harness.open();
  const revision = await put(store, "/a", "0");
  const attempt = (value: string) =>
    store.txn([{ key: "/a", target: "mod_revision", equals: revision }], [{ kind: "put", key: "/a", value }]);
  const results = await Promise.all(["1", "2", "3"].map(attempt));
  assert.equal(results.filter((result) => result.succeeded).length, 1);
}

async function refusesBadTransactions(harness: StoreHarness): Promise<void> {
  const store = await harness.open();
  const twice = [
    { kind: "put", key: "/a", value: "1" },
    { kind: "delete", key: "/a" },
  ] as const;
  await assert.rejects(store.txn([], twice), /only once/);
  await assert.rejects(store.txn([], [{ kind: "put", key: "/a", value: "x".repeat(2 ** 20) }]), /bytes/);
  const many = Array.from({ length: 129 }, (_, index) => ({ kind: "put", key: `/${index}`, value: "" }) as const);
  await assert.rejects(store.txn([], many), /at most 128/);
  assert.deepEqual(await valuesOf(store, "/"), {});
}

async function watchesWholeRevisions(harness: StoreHarness): Promise<void> {
  const store = await harness.open();
  const { revision } = await store.list("/");
  const { batches } = record(store, "/w/", revision + 1n);
  await put(store, "/w/1", "a");
  await store.txn(
    [],
    [
      { kind: "put", key: "/w/2", value: "b" },
      { kind: "delete", key: "/w/1" },
    ],
  );
  for (let value = 0; value < 50; value += 1) await put(store, "/w/3", String(value));
  await until(() => batches.length >= 52);
  assert.deepEqual(describeEvents(batches[0]), ["/w/1=a"]);
  assert.deepEqual(describeEvents(batches[1]).sort(), ["-/w/1", "/w/2=b"]);
  assert.deepEqual(
    batches.map((batch) => batch.revision),
    batches.map((_, index) => revision + 1n + BigInt(index)),
  );
  assert.equal(describeEvents(batches[51])[0], "/w/3=49");
}

async function watchesFromThePast(harness: StoreHarness): Promise<void> {
  const store = await harness.open();
  await put(store, "/w/1", "a");
  const { revision } = await store.list("/w/");
  await put(store, "/w/2", "b");
  const { batches } = record(store, "/w/", revision + 1n);
  await put(store, "/w/3", "c");
  await until(() => batches.length >= 2);
  assert.deepEqual(batches.flatMap(describeEvents), ["/w/2=b", "/w/3=c"]);
}

async function watchesPrefixOnly(harness: StoreHarness): Promise<void> {
  const store = await harness.open();
  const { revision } = await store.list("/");
  const all = record(store, "/", revision + 1n);
  const some = record(store, "/w/", revision + 1n);
  const closed = record(store, "/w/", revision + 1n);
  closed.watch.close();
  await put(store, "/v/1", "a");
  await put(store, "/w/1", "b");
  await until(() => all.batches.length >= 2);
  assert.deepEqual(some.batches.flatMap(describeEvents), ["/w/1=b"]);
  assert.deepEqual(closed.batches, []);
}

async function saysCompacted(harness: StoreHarness): Promise<void> {
  const store = await harness.open();
  await put(store, "/w/1", "a");
  const reopened = await harness.reopen(store);
  await put(reopened, "/w/1", "b");
  for (let value = 0; value < 2_100; value += 1) await put(reopened, "/x", String(value));
  const { batches, compactions } = record(reopened, "/w/", 1n);
  await until(() => compactions() === 1);
  assert.deepEqual(batches, []);
}

async function survivesRestart(harness: StoreHarness): Promise<void> {
  const store = await harness.open();
  await put(store, "/a", "1");
  await put(store, "/b", "2");
  const before = await store.list("/");
  const reopened = await harness.reopen(store);
  assert.deepEqual(await reopened.list("/"), before);
  assert.equal(await put(reopened, "/c", "3"), before.revision + 1n);
}

async function revokesLease(harness: StoreHarness): Promise<void> {
  const store = await harness.open();
  const lease = await store.grantLease(LEASE_TTL_MS);
  const other = await store.grantLease(LEASE_TTL_MS);
  await put(store, "/l/1", "a", lease);
  await put(store, "/l/2", "b", lease);
  await put(store, "/l/3", "c", lease);
  await put(store, "/l/3", "c", other);
  const revision = await put(store, "/l/4", "d");
  const { batches } = record(store, "/l/", revision + 1n);
  await lease.revoke();
  await until(() => batches.length >= 1);
  assert.deepEqual(describeEvents(batches[0]).sort(), ["-/l/1", "-/l/2"]);
  assert.deepEqual(await valuesOf(store, "/l/"), { "/l/3": "c", "/l/4": "d" });
}

async function expiresAfterRestart(harness: StoreHarness): Promise<void> {
  const store = await harness.open();
  await put(store, "/l/1", "a", await store.grantLease(LEASE_TTL_MS));
  const reopened = await harness.reopen(store);
  await harness.pass(LEASE_TTL_MS / 2);
  assert.deepEqual(await valuesOf(reopened, "/l/"), { "/l/1": "a" });
  const { revision } = await reopened.list("/l/");
  const { batches } = record(reopened, "/l/", revision + 1n);
  await harness.pass(LEASE_TTL_MS);
  await until(() => batches.length >= 1);
  assert.deepEqual(await valuesOf(reopened, "/l/"), {});
}

async function keepsConfirmedKeys(harness: StoreHarness): Promise<void> {
  const store = await harness.open();
  await put(store, "/l/1", "a", await store.grantLease(LEASE_TTL_MS));
  await put(store, "/l/2", "b", await store.grantLease(LEASE_TTL_MS));
  const reopened = await harness.reopen(store);
  await put(reopened, "/l/1", "a", await reopened.grantLease(LEASE_TTL_MS));
  const { revision } = await reopened.list("/l/");
  const { batches } = record(reopened, "/l/", revision + 1n);
  await harness.pass(2 * LEASE_TTL_MS);
  await until(() => batches.length >= 1);
  assert.deepEqual(await valuesOf(reopened, "/l/"), { "/l/1": "a" });
}

async function keepsLeasesAlive(harness: StoreHarness): Promise<void> {
  const store = await harness.open();
  await put(store, "/l/1", "a", await store.grantLease(LEASE_TTL_MS));
  for (let round = 0; round < 5; round += 1) await harness.pass(LEASE_TTL_MS);
  assert.deepEqual(await valuesOf(store, "/l/"), { "/l/1": "a" });
}

async function refusesEndedLease(harness: StoreHarness): Promise<void> {
  const store = await harness.open();
  const lease = await store.grantLease(LEASE_TTL_MS);
  await lease.revoke();
  await assert.rejects(put(store, "/l/1", "a", lease), /lease/);
  assert.deepEqual(await valuesOf(store, "/l/"), {});
}
