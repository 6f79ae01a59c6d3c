import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../platform/manual-clock.js";
import { PushLatency, type PushTimes } from "./push-latency.js";

let clock: ManualClock;
let seen: (PushTimes & { typeUrl: string })[];
let pushes: PushLatency;
const stream = {};

beforeEach(() => {
  clock = new ManualClock();
  seen = [];
  pushes = new PushLatency(
    () => clock.nowMs(),
    (typeUrl, times) => seen.push({ typeUrl, ...times }),
  );
  pushes.began(stream);
  clock.advance(1_000);
});

describe("PushLatency", () => {
  it("measures from the first change of a burst, to the wire and to the ACK", () => {
    pushes.changed();
    clock.advance(3);
    pushes.changed();
    clock.advance(2);
    pushes.publishing();
    clock.advance(1);
    clock.advance(4);
    pushes.accepted(stream, "RDS", 4);
    expect(seen).toEqual([{ typeUrl: "RDS", toWireMs: 6, toAckMs: 10 }]);
  });

  it("counts an answer for the publication before its response, not for a later one", () => {
    pushes.changed();
    pushes.publishing();
    clock.advance(10);
    pushes.changed();
    clock.advance(5);
    pushes.publishing();
    clock.advance(5);
    pushes.accepted(stream, "CDS", 18);
    pushes.accepted(stream, "CDS", 2);
    expect(seen.map(({ toAckMs }) => toAckMs)).toEqual([20, 10]);
  });

  it("does not count what an Envoy is sent because it connects", () => {
    pushes.changed();
    pushes.publishing();
    clock.advance(1);
    const late = {};
    pushes.began(late);
    pushes.accepted(late, "CDS", 0);
    pushes.accepted({}, "CDS", 0);
    clock.advance(10_000);
    pushes.accepted(stream, "CDS", 0);
    expect(seen).toEqual([]);
    pushes.accepted(stream, "CDS", 10_001);
    expect(seen).toHaveLength(1);
    pushes.ended(stream);
    pushes.accepted(stream, "CDS", 10_001);
    expect(seen).toHaveLength(1);
  });

  it("knows nothing of publications without a change, and not of more than the last 64", () => {
    pushes.publishing();
    pushes.accepted(stream, "CDS", 0);
    expect(seen).toEqual([]);
    for (let index = 0; index < 65; index += 1) {
      pushes.changed();
      pushes.publishing();
      clock.advance(1);
    }
    pushes.accepted(stream, "CDS", 65);
    expect(seen).toEqual([]);
    pushes.accepted(stream, "CDS", 64);
    expect(seen).toHaveLength(1);
  });
});
