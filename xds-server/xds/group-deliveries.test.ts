import { describe, expect, it } from "vitest";
import { ManualClock } from "../platform/manual-clock.js";
import { CLUSTER_TYPE, LISTENER_TYPE, type ResourceType } from "../snapshot/resource-types.js";
import type { Snapshot } from "../snapshot/snapshot.js";
import { GroupDeliveries, type GroupState, type Member } from "./group-deliveries.js";
import type { GroupDelivery } from "./group-delivery.js";
import type { NodeGroup } from "./node-groups.js";
import { TRIAL_MS } from "./type-trial.js";
import { World } from "./world-fixture.js";

const EDGE: NodeGroup = { name: "edge", role: "gateway", labels: [] };
const EU: NodeGroup = { name: "eu", role: "gateway", labels: [["region", "eu"]] };

class Stream implements Member {
  delivery: GroupDelivery | undefined;
  readonly identity;
  readonly progress = new Map<string, "unasked" | "open" | "taken">();

  constructor(id: string, role = "gateway", labels: Record<string, string> = {}) {
    this.identity = { id, role, labels: new Map(Object.entries(labels)) };
  }

  progressOf(typeUrl: ResourceType): "unasked" | "open" | "taken" {
    return this.progress.get(typeUrl) ?? "taken";
  }

  get target(): Snapshot | undefined {
    return this.delivery?.targetFor(this.identity.id);
  }
}

function state(group: NodeGroup, listener: string): GroupState {
  const world = new World().set(LISTENER_TYPE, ["gateway"], listener).set(CLUSTER_TYPE, ["x"], "a");
  return { group, snapshot: world.snapshot() };
}

class Scene {
  readonly clock = new ManualClock();
  readonly streams = new Set<Stream>();
  readonly retargeted: string[][] = [];
  readonly groups = new GroupDeliveries<Stream>(this.clock, this.streams, (members) =>
    this.retargeted.push([...members].map(({ identity }) => identity.id)),
  );

  open(...streams: readonly Stream[]): void {
    for (const stream of streams) {
      this.streams.add(stream);
      this.groups.assign(stream);
      this.groups.started(stream);
    }
  }

  close(stream: Stream): void {
    this.streams.delete(stream);
    this.groups.ended(stream);
  }
}

describe("groups of Envoys", () => {
  it("give each Envoy the state of its own group", () => {
    const scene = new Scene();
    const [one, two] = [new Stream("one"), new Stream("two", "gateway", { region: "eu" })];
    const [edge, eu] = [state(EDGE, "a"), state(EU, "b")];
    scene.open(one);
    scene.groups.publish([edge, eu]);
    scene.open(two);
    expect([one.target, two.target]).toEqual([edge.snapshot, eu.snapshot]);
  });

  it("tell an Envoy that fits none nothing, with one finding for all its streams", () => {
    const scene = new Scene();
    scene.groups.publish([state(EU, "a")]);
    const stranger = new Stream("one", "gateway", { region: "us", ring: "x" });
    scene.open(stranger, new Stream("one", "gateway", { region: "us", ring: "x" }));
    expect(stranger.target).toBeUndefined();
    expect(scene.groups.findings()).toEqual([
      {
        severity: "warning",
        subject: "one",
        message: expect.stringContaining('role "gateway", labels region=us, ring=x) fits no gateway record'),
      },
    ]);
    scene.groups.publish([state(EU, "a"), state(EDGE, "a")]);
    expect([stranger.target !== undefined, scene.groups.findings()]).toEqual([true, []]);
  });

  it("leave an Envoy what it has when its group is gone", () => {
    const scene = new Scene();
    const one = new Stream("one");
    scene.open(one);
    scene.groups.publish([state(EDGE, "a")]);
    scene.groups.publish([]);
    expect([one.delivery, scene.groups.findings().map(({ subject }) => subject)]).toEqual([undefined, ["one"]]);
  });

  it("retarget the others when the one that tries has taken it on all its streams", () => {
    const scene = new Scene();
    const [one, again, two] = [new Stream("one"), new Stream("one"), new Stream("two")];
    scene.open(one, again, two);
    scene.groups.publish([state(EDGE, "a")]);
    for (const stream of [one, again]) stream.progress.set(LISTENER_TYPE, "open");
    const next = state(EDGE, "b");
    scene.groups.publish([next]);
    expect([one.target === next.snapshot, two.target === next.snapshot]).toEqual([true, false]);
    scene.retargeted.length = 0;
    one.progress.set(LISTENER_TYPE, "taken");
    scene.groups.heard(one);
    expect(scene.retargeted, "the other stream has not").toEqual([]);
    again.progress.set(LISTENER_TYPE, "taken");
    scene.groups.heard(again);
    expect([scene.retargeted, two.target]).toEqual([[["one", "one", "two"]], next.snapshot]);
    expect(scene.clock.pendingTimers).toBe(0);
  });

  it("choose an Envoy that asked for the type", () => {
    const scene = new Scene();
    const [one, two] = [new Stream("one"), new Stream("two")];
    one.progress.set(LISTENER_TYPE, "unasked");
    scene.open(one, two);
    scene.groups.publish([state(EDGE, "a")]);
    const next = state(EDGE, "b");
    scene.groups.publish([next]);
    expect([one.target === next.snapshot, two.target === next.snapshot]).toEqual([false, true]);
  });

  it("wait 2 s for it, and only in its own group", () => {
    const scene = new Scene();
    const [one, two, far] = [new Stream("one"), new Stream("two"), new Stream("far", "gateway", { region: "eu" })];
    scene.open(one, two, far);
    const eu = state(EU, "a");
    scene.groups.publish([state(EDGE, "a"), eu]);
    const next = state(EDGE, "b");
    scene.groups.publish([next, eu]);
    scene.retargeted.length = 0;
    scene.clock.advance(TRIAL_MS - 1);
    expect([two.target === next.snapshot, scene.retargeted]).toEqual([false, []]);
    scene.clock.advance(1);
    expect([two.target, scene.retargeted]).toEqual([next.snapshot, [["one", "two"]]]);
    expect(scene.clock.pendingTimers).toBe(0);
  });

  it("stop the wave at a refusal, and begin anew with one that has just started", () => {
    const scene = new Scene();
    const [one, two] = [new Stream("one"), new Stream("two")];
    scene.open(one, two);
    scene.groups.publish([state(EDGE, "a")]);
    const next = state(EDGE, "b");
    scene.groups.publish([next]);
    scene.groups.refused(one, LISTENER_TYPE, ["gateway"], "no such filter");
    scene.clock.advance(10 * TRIAL_MS);
    expect(two.target === next.snapshot).toBe(false);
    expect(scene.groups.findings().map(({ subject, severity }) => [subject, severity])).toEqual([["gateway", "error"]]);
    const three = new Stream("three");
    scene.open(three);
    expect([three.target === next.snapshot, two.target === next.snapshot]).toEqual([true, false]);
  });

  it("ask another one when the last stream of the one that tries ends", () => {
    const scene = new Scene();
    const [one, again, two, three] = [new Stream("one"), new Stream("one"), new Stream("two"), new Stream("three")];
    scene.open(one, again, two, three);
    scene.groups.publish([state(EDGE, "a")]);
    const next = state(EDGE, "b");
    scene.groups.publish([next]);
    scene.close(one);
    expect(two.target === next.snapshot, "it has another stream").toBe(false);
    scene.close(again);
    expect([two.target === next.snapshot, three.target === next.snapshot]).toEqual([true, false]);
  });

  it("give everybody the same when there are none", () => {
    const scene = new Scene();
    const one = new Stream("one", "anything");
    scene.open(one);
    const { snapshot } = state(EDGE, "a");
    scene.groups.publishToAll(snapshot);
    expect([one.target, scene.groups.findings()]).toEqual([snapshot, []]);
  });
});
