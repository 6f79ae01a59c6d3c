import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../platform/manual-clock.js";
import { PredictError } from "../request.js";
import { BatchQueue, type QueueItem, type QueueLimits, type Waiting } from "./batch-queue.js";

interface Item extends QueueItem {
  readonly id: number;
}

const LIMITS: QueueLimits = { maxBatchRows: 8, maxDelayMs: 4, maxWaiting: 64, maxWaitingBytes: 1e6, maxInFlight: 1 };

function setUp(limits: Partial<QueueLimits> = {}, serviceMs = 10) {
  const clock = new ManualClock(0);
  const batches: { atMs: number; ids: number[] }[] = [];
  const hopeless: number[] = [];
  const bugs: unknown[] = [];
  const queue: BatchQueue<Item> = new BatchQueue<Item>(
    { ...LIMITS, ...limits },
    {
      clock,
      dispatch: async (batch) => {
        batches.push({ atMs: clock.nowMs(), ids: batch.map(({ item }) => item.id) });
        await clock.sleep(serviceMs);
      },
      hopeless: (item) => void hopeless.push(item.id),
      bug: (error) => void bugs.push(error),
    },
  );
  let next = 0;
  const enqueue = (item: Partial<Item> = {}): Waiting<Item> =>
    queue.enqueue({
      id: next++,
      laneKey: "a",
      leg: "primary",
      rows: 1,
      bytes: 10,
      deadlineAtMs: Number.POSITIVE_INFINITY,
      ...item,
    });
  return { clock, queue, batches, hopeless, bugs, enqueue };
}

function reasonOf(action: () => unknown): string {
  try {
    action();
    return "accepted";
  } catch (error) {
    return error instanceof PredictError ? error.reason : String(error);
  }
}

describe("BatchQueue release", () => {
  it("sends a full batch at once", () => {
    const { batches, enqueue } = setUp();
    for (let index = 0; index < 8; index += 1) enqueue();
    expect(batches).toEqual([{ atMs: 0, ids: [0, 1, 2, 3, 4, 5, 6, 7] }]);
  });

  it("sends what it has when the oldest member's window ends", async () => {
    const { clock, batches, enqueue } = setUp();
    enqueue();
    await clock.advance(3);
    enqueue();
    await clock.advance(1);
    expect(batches).toEqual([{ atMs: 4, ids: [0, 1] }]);
  });

  it("works as a pass-through with batch size 1 and delay 0 (C061)", () => {
    const { batches, enqueue } = setUp({ maxBatchRows: 1, maxDelayMs: 0 });
    enqueue();
    expect(batches).toEqual([{ atMs: 0, ids: [0] }]);
  });

  it("collects a batch while all slots are taken, and sends when one frees", async () => {
    const { clock, batches, enqueue } = setUp({ maxDelayMs: 0 });
    for (let index = 0; index < 6; index += 1) enqueue();
    expect(batches).toHaveLength(1);
    await clock.advance(10);
    expect(batches[1]).toEqual({ atMs: 10, ids: [1, 2, 3, 4, 5] });
  });

  it("keeps at most max_in_flight batches upstream", async () => {
    const { clock, queue, batches, enqueue } = setUp({ maxInFlight: 2, maxDelayMs: 0 });
    for (let index = 0; index < 5; index += 1) enqueue();
    expect(batches).toHaveLength(2);
    expect(queue.load().inFlight).toBe(2);
    await clock.advance(10);
    expect(batches.map(({ ids }) => ids)).toEqual([[0], [1], [2, 3, 4]]);
  });

  it("never mixes lanes (C064, C065)", async () => {
    const { clock, batches, enqueue } = setUp({ maxInFlight: 4 });
    enqueue({ laneKey: "with hint" });
    enqueue({ laneKey: "without" });
    enqueue({ laneKey: "with hint" });
    await clock.advance(4);
    expect(batches.map(({ ids }) => ids)).toEqual([[0, 2], [1]]);
  });

  it("leaves early when the tightest deadline needs it", async () => {
    const { clock, queue, batches, enqueue } = setUp({ maxDelayMs: 50 });
    queue.recordService(10);
    enqueue({ deadlineAtMs: 30 });
    await clock.advance(60);
    expect(batches[0]?.atMs).toBe(20);
  });

  it("frees the slot and goes on after a bug in dispatch (C047)", async () => {
    const clock = new ManualClock(0);
    const bugs: unknown[] = [];
    let calls = 0;
    const queue = new BatchQueue<Item>(
      { ...LIMITS, maxDelayMs: 0 },
      {
        clock,
        dispatch: () => {
          calls += 1;
          throw new Error("null tensor");
        },
        hopeless: () => {},
        bug: (error) => void bugs.push(error),
      },
    );
    const item = {
      id: 0,
      laneKey: "a",
      leg: "primary",
      rows: 1,
      bytes: 1,
      deadlineAtMs: Number.POSITIVE_INFINITY,
    } as const;
    queue.enqueue(item);
    await clock.settle();
    queue.enqueue(item);
    await clock.settle();
    expect([calls, bugs.length, queue.load().inFlight]).toEqual([2, 2, 0]);
  });
});

describe("BatchQueue admission", () => {
  it("accepts in flight + max_queue_size, whether requests come spaced or at once (C053)", async () => {
    for (const gapMs of [10, 0]) {
      const { clock, enqueue } = setUp({ maxBatchRows: 1, maxDelayMs: 0, maxWaiting: 2 }, 2000);
      const reasons: string[] = [];
      for (let index = 0; index < 10; index += 1) {
        reasons.push(reasonOf(() => enqueue()));
        await clock.advance(gapMs);
      }
      expect(reasons.filter((reason) => reason === "accepted")).toHaveLength(3);
      expect(new Set(reasons.slice(3))).toEqual(new Set(["overloaded"]));
    }
  });

  it("refuses above the cap with retry-after (C074)", () => {
    const { enqueue, queue } = setUp({}, 1e9);
    const reasons = Array.from({ length: 200 }, () => reasonOf(() => enqueue()));
    expect(reasons.filter((reason) => reason === "accepted")).toHaveLength(8 + 64);
    expect(queue.load().waiting).toBe(64);
    try {
      enqueue();
    } catch (error) {
      expect((error as PredictError).retryAfterMs).toBeGreaterThan(0);
    }
  });

  it("bounds waiting bytes (C079)", () => {
    const { enqueue } = setUp({ maxWaitingBytes: 25 });
    expect([1, 2, 3].map(() => reasonOf(() => enqueue()))).toEqual(["accepted", "accepted", "overloaded"]);
  });

  it("counts each leg on its own, so that shadows never push out live requests", () => {
    const { enqueue } = setUp({ maxWaiting: 2, maxDelayMs: 100 });
    expect(reasonOf(() => enqueue({ leg: "shadow", laneKey: "s" }))).toBe("accepted");
    expect(reasonOf(() => enqueue({ leg: "shadow", laneKey: "s" }))).toBe("accepted");
    expect(reasonOf(() => enqueue({ leg: "shadow", laneKey: "s" }))).toBe("overloaded");
    expect(reasonOf(() => enqueue())).toBe("accepted");
  });

  it("names the limit for a request that is larger than a batch", () => {
    expect(() => setUp().enqueue({ rows: 9 })).toThrow(/9 rows.*limit of 8/);
  });

  it("refuses at once what cannot be answered in time (C058)", async () => {
    const { clock, queue, hopeless, batches, enqueue } = setUp({ maxDelayMs: 0, maxBatchRows: 1 }, 260);
    queue.recordService(50);
    expect(reasonOf(() => enqueue({ deadlineAtMs: 49 }))).toBe("deadline");
    enqueue();
    enqueue({ deadlineAtMs: 300 });
    await clock.advance(400);
    expect(hopeless).toEqual([2]);
    expect(batches).toHaveLength(1);
  });

  it("tries again when the slow time has faded", async () => {
    const { clock, queue, enqueue } = setUp();
    queue.recordService(5000);
    expect(reasonOf(() => enqueue({ deadlineAtMs: 1000 }))).toBe("deadline");
    await clock.advance(10_001);
    expect(reasonOf(() => enqueue({ deadlineAtMs: 11_500 }))).toBe("accepted");
  });
});

describe("BatchQueue removal", () => {
  it("forgets cancelled members before a batch is formed; they do not count (C049, C055)", async () => {
    const { clock, queue, batches, enqueue } = setUp();
    const first = Array.from({ length: 7 }, () => enqueue());
    for (const member of first.slice(0, 4)) expect(queue.remove(member)).toBe(true);
    for (let index = 0; index < 4; index += 1) enqueue();
    expect(batches).toHaveLength(0);
    enqueue();
    expect(batches).toEqual([{ atMs: 0, ids: [4, 5, 6, 7, 8, 9, 10, 11] }]);
    expect(queue.remove(first[0] as Waiting<Item>)).toBe(false);
    await clock.advance(10);
    expect(queue.load()).toMatchObject({ waiting: 0, waitingBytes: 0, waitingRows: 0, inFlight: 0 });
    expect(clock.pendingTimers).toBe(0);
  });

  it("sends nothing for a fully cancelled batch (C055)", async () => {
    const { clock, queue, batches, enqueue } = setUp({ maxDelayMs: 0 });
    enqueue();
    const waiting = Array.from({ length: 8 }, () => enqueue());
    for (const member of waiting) queue.remove(member);
    await clock.advance(100);
    expect(batches).toHaveLength(1);
  });

  it("loses and doubles no request, whatever the order of events", async () => {
    const event = fc.oneof(
      fc.record({
        kind: fc.constant("add" as const),
        rows: fc.integer({ min: 1, max: 8 }),
        lane: fc.integer({ min: 0, max: 2 }),
      }),
      fc.record({ kind: fc.constant("remove" as const), pick: fc.nat() }),
      fc.record({ kind: fc.constant("wait" as const), ms: fc.integer({ min: 0, max: 12 }) }),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(event, { maxLength: 60 }),
        fc.integer({ min: 1, max: 3 }),
        async (events, maxInFlight) => {
          const { clock, queue, batches, enqueue, bugs } = setUp({ maxInFlight });
          const members: Waiting<Item>[] = [];
          const removed = new Set<number>();
          for (const step of events) {
            if (step.kind === "add") members.push(enqueue({ rows: step.rows, laneKey: String(step.lane) }));
            else if (step.kind === "wait") await clock.advance(step.ms);
            else {
              const member = members[step.pick % Math.max(1, members.length)];
              if (member !== undefined && queue.remove(member)) removed.add(member.item.id);
            }
          }
          let idle = false;
          void queue.whenIdle().then(() => {
            idle = true;
          });
          await clock.advance(10_000);
          const sent = batches.flatMap(({ ids }) => ids);
          expect(new Set(sent).size).toBe(sent.length);
          expect([...sent, ...removed].sort((a, b) => a - b)).toEqual(members.map(({ item }) => item.id));
          for (const { ids } of batches) {
            const rows = ids.reduce((sum, id) => sum + (members[id]?.rows ?? 0), 0);
            expect(rows).toBeLessThanOrEqual(8);
            expect(new Set(ids.map((id) => members[id]?.item.laneKey)).size).toBe(1);
          }
          expect([idle, bugs.length, clock.pendingTimers]).toEqual([true, 0, 0]);
        },
      ),
      { numRuns: 60 },
    );
  });
});
