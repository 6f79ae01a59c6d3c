import { describe, expect, it } from "vitest";
import {
  CLUSTER_TYPE,
  ENDPOINT_TYPE,
  LISTENER_TYPE,
  type ResourceType,
  ROUTE_TYPE,
  SCOPE_TYPE,
} from "../snapshot/resource-types.js";
import { contentsOf, SotwEnvoy } from "./hand-driven-sotw-fixture.js";
import { NodeRecord } from "./node-record.js";
import { RecentStates } from "./recent-states.js";
import { World } from "./world-fixture.js";

/** Rules of state of the world that need no second type; order between types: delivery-property.test.ts. */

const world = (type: ResourceType, names: readonly string[], revision = "v1"): World =>
  new World().set(type, names, revision);

/** A client that took a whole state, by names or as the wildcard. */
function holding(type: ResourceType, state: World, names: readonly string[] = []): SotwEnvoy {
  const envoy = new SotwEnvoy();
  envoy.publish(state.snapshot());
  envoy.start(type, names);
  envoy.ack(envoy.last(type));
  envoy.take();
  return envoy;
}

describe("versions and nonces", () => {
  it("rule 8: equal content has an equal version on every stream and server, and another content another", () => {
    const version = (revision: string): string | undefined => {
      const envoy = new SotwEnvoy();
      envoy.publish(world(CLUSTER_TYPE, ["a", "b"], revision).snapshot());
      envoy.start(CLUSTER_TYPE);
      return envoy.last(CLUSTER_TYPE)?.systemVersion;
    };
    expect(version("v1")).toBe(version("v1"));
    expect(version("v1")).not.toBe(version("v2"));
  });

  it("rule 9: a reconnect at an equal version is silent for a wildcard, and answered for names", () => {
    const state = world(CLUSTER_TYPE, ["a"]).set(ENDPOINT_TYPE, ["a"], "v1").set(ROUTE_TYPE, ["r"], "v1");
    const snapshot = state.set(LISTENER_TYPE, ["l"], "v1").snapshot();
    const envoy = new SotwEnvoy();
    envoy.publish(snapshot);
    envoy.start(CLUSTER_TYPE, [], snapshot.typeVersions[CLUSTER_TYPE]);
    expect(envoy.take()).toEqual([]);
    envoy.start(ENDPOINT_TYPE, ["a"], snapshot.typeVersions[ENDPOINT_TYPE]);
    expect(envoy.take()).toEqual(["EDS +a"]);
    envoy.start(ROUTE_TYPE, ["r"], snapshot.typeVersions[ROUTE_TYPE]);
    expect(envoy.take()).toEqual(["RDS +r"]);
    envoy.start(LISTENER_TYPE, ["l"], snapshot.typeVersions[LISTENER_TYPE]);
    expect(envoy.take()).toEqual(["LDS +l"]);
  });

  it("rule 9: the version is looked up when the first state comes after the request", () => {
    const snapshot = world(CLUSTER_TYPE, ["a"]).snapshot();
    const envoy = new SotwEnvoy();
    envoy.start(CLUSTER_TYPE, [], snapshot.typeVersions[CLUSTER_TYPE]);
    envoy.publish(snapshot);
    expect(envoy.take()).toEqual([]);
    expect(envoy.session.unsettledTypes()).toEqual([]);
    envoy.publish(world(CLUSTER_TYPE, ["a", "b"]).snapshot());
    expect(contentsOf(envoy.last(CLUSTER_TYPE))).toEqual(["a", "b"]);
  });

  it("rule 11: nonce of a stream before is ignored in the first request of a type", () => {
    const envoy = new SotwEnvoy();
    envoy.publish(world(LISTENER_TYPE, ["l"]).snapshot());
    envoy.sotwRequest({ typeUrl: LISTENER_TYPE, responseNonce: "41" });
    expect(envoy.take()).toEqual(["LDS +l"]);
  });

  it("rule 12: a stale nonce applies the names and gives no credit", () => {
    const envoy = new SotwEnvoy();
    envoy.publish(world(ENDPOINT_TYPE, ["a", "b"]).snapshot());
    envoy.start(ENDPOINT_TYPE, ["a"]);
    const first = envoy.last(ENDPOINT_TYPE);
    envoy.take();
    envoy.rename(ENDPOINT_TYPE, ["a", "b"], "made-up");
    // Still waiting for the answer to the first, so nothing goes yet.
    expect(envoy.take()).toEqual([]);
    expect(envoy.session.unsettledTypes()).toEqual([ENDPOINT_TYPE]);
    envoy.ack(first);
    expect(envoy.take()).toEqual(["EDS +b"]);
  });

  it("rule 13: an acknowledgement with the same names gets no response", () => {
    const envoy = holding(ENDPOINT_TYPE, world(ENDPOINT_TYPE, ["a"]), ["a"]);
    envoy.rename(ENDPOINT_TYPE, ["a"], "1");
    envoy.rename(ENDPOINT_TYPE, ["a"], "0");
    expect(envoy.take()).toEqual([]);
  });
});

describe("refusals", () => {
  it.each([CLUSTER_TYPE, ENDPOINT_TYPE] as const)("rule 14: %s is parked until its content changes", (type) => {
    const envoy = holding(type, world(type, ["a", "b"]), type === ENDPOINT_TYPE ? ["a", "b"] : []);
    const bad = world(type, ["a", "b"]).set(type, ["a"], "bad");
    envoy.publish(bad.snapshot());
    envoy.nack(envoy.last(type), "no");
    envoy.take();
    for (let time = 1; time < 10; time += 1) envoy.at(time * 1_000);
    envoy.publish(bad.snapshot());
    expect(envoy.take()).toEqual([]);
    expect(envoy.session.unsettledTypes()).toEqual([]);
    expect(envoy.node.rejections.map(({ name, words }) => [name, words])).toEqual([["a", "no"]]);
    envoy.publish(bad.set(type, ["a"], "good").snapshot());
    expect(envoy.take()).toHaveLength(1);
  });

  it("rule 14: what is refused stays out of a full state, what it replaced stays in", () => {
    const envoy = holding(CLUSTER_TYPE, world(CLUSTER_TYPE, ["a", "b"]));
    envoy.publish(world(CLUSTER_TYPE, ["a", "b"]).set(CLUSTER_TYPE, ["a"], "bad").snapshot());
    envoy.nack(envoy.last(CLUSTER_TYPE), "no");
    const next = world(CLUSTER_TYPE, ["a", "b", "c"]).set(CLUSTER_TYPE, ["a"], "bad").snapshot();
    envoy.publish(next);
    const last = envoy.last(CLUSTER_TYPE);
    const good = world(CLUSTER_TYPE, ["a", "b", "c"]).snapshot();
    expect(last?.contents.map(({ version }) => version)).toEqual(
      ["a", "b", "c"].map((name) => good.byType[CLUSTER_TYPE].get(name)?.version),
    );
    // Not all of the type is there, so the version must not say so: the next stream would be told nothing.
    expect(last?.systemVersion).not.toBe(next.typeVersions[CLUSTER_TYPE]);
    expect(last?.systemVersion).not.toBe("");
  });

  it("rule 14: of several each is offered once more on its own, and the rest stays in the state", () => {
    const envoy = holding(CLUSTER_TYPE, world(CLUSTER_TYPE, ["a", "b", "c"]));
    envoy.publish(world(CLUSTER_TYPE, ["a", "b"], "v2").set(CLUSTER_TYPE, ["c"], "v1").snapshot());
    envoy.nack(envoy.last(CLUSTER_TYPE), "one of them");
    expect(envoy.take()).toEqual(["CDS +a +b", "CDS +a"]);
    envoy.nack({ typeUrl: CLUSTER_TYPE, nonce: "3", systemVersion: "" }, "this one");
    const second = envoy.last(CLUSTER_TYPE);
    expect(contentsOf(second)).toEqual(["a", "b", "c"]);
    expect(envoy.take()).toEqual(["CDS +b"]);
    envoy.ack(second);
    expect(envoy.take()).toEqual([]);
    expect(envoy.node.rejections.map(({ name }) => name)).toEqual(["a"]);
  });

  it("rule 15: told by the error alone: a refusal may carry the refused version", () => {
    const envoy = holding(ENDPOINT_TYPE, world(ENDPOINT_TYPE, ["a"]), ["a"]);
    envoy.publish(world(ENDPOINT_TYPE, ["a"], "bad").snapshot());
    const { nonce = "", systemVersion = "" } = envoy.last(ENDPOINT_TYPE) ?? {};
    const request = { typeUrl: ENDPOINT_TYPE, responseNonce: nonce, versionInfo: systemVersion, resourceNames: ["a"] };
    envoy.sotwRequest({ ...request, errorDetail: { code: 3, message: "" } });
    expect(envoy.node.rejections).toHaveLength(1);
  });

  it("rule 16: names that come with an error count, whether it is new or repeated", () => {
    const envoy = holding(ENDPOINT_TYPE, world(ENDPOINT_TYPE, ["a", "b", "c"]), ["a"]);
    envoy.publish(world(ENDPOINT_TYPE, ["a"], "bad").set(ENDPOINT_TYPE, ["b", "c"], "v1").snapshot());
    const responseNonce = envoy.last(ENDPOINT_TYPE)?.nonce ?? "";
    envoy.take();
    const refusal = { typeUrl: ENDPOINT_TYPE, responseNonce, errorDetail: { code: 3, message: "no" } };
    envoy.sotwRequest({ ...refusal, resourceNames: ["a", "b"] });
    const answer = envoy.last(ENDPOINT_TYPE);
    expect(envoy.take()).toEqual(["EDS +b"]);
    envoy.rename(ENDPOINT_TYPE, ["a", "b"], answer?.nonce ?? "");
    envoy.sotwRequest({ ...refusal, resourceNames: ["a", "b", "c"] });
    expect(envoy.take()).toEqual(["EDS +c"]);
    expect(envoy.node.rejections.map(({ name }) => name)).toEqual(["a"]);
  });

  it("rule 17: going back to the last good content needs no response and leaves no complaint", () => {
    const envoy = holding(CLUSTER_TYPE, world(CLUSTER_TYPE, ["a"]));
    envoy.publish(world(CLUSTER_TYPE, ["a"], "bad").snapshot());
    envoy.nack(envoy.last(CLUSTER_TYPE), "no");
    envoy.take();
    envoy.publish(world(CLUSTER_TYPE, ["a"]).snapshot());
    expect(envoy.take()).toEqual([]);
    expect(envoy.node.findings()).toEqual([]);
  });
});

describe("subscriptions", () => {
  it("rule 18: empty means all only while nothing was ever named, and only for the types that travel whole", () => {
    const state = world(CLUSTER_TYPE, ["a", "b"]).set(ENDPOINT_TYPE, ["a"], "v1");
    const envoy = holding(CLUSTER_TYPE, state);
    envoy.rename(CLUSTER_TYPE, [], "1");
    expect(envoy.take()).toEqual([]);
    envoy.rename(CLUSTER_TYPE, ["a"], "1");
    const named = envoy.last(CLUSTER_TYPE);
    expect(contentsOf(named)).toEqual(["a"]);
    envoy.ack(named);
    envoy.take();
    envoy.rename(CLUSTER_TYPE, [], "2");
    envoy.publish(state.set(CLUSTER_TYPE, ["a", "b"], "v2").snapshot());
    envoy.start(ENDPOINT_TYPE);
    expect(envoy.take()).toEqual([]);
  });

  it("rule 19: the wildcard may stand beside names, of any type, and leaves them when it goes", () => {
    for (const type of [CLUSTER_TYPE, ENDPOINT_TYPE] as const) {
      const state = world(type, ["a", "b"]);
      const envoy = new SotwEnvoy();
      envoy.publish(state.snapshot());
      envoy.start(type, ["*", "a"]);
      const first = envoy.last(type);
      expect(contentsOf(first)).toEqual(["a", "b"]);
      envoy.ack(first);
      envoy.rename(type, ["a"], "1");
      envoy.take();
      envoy.publish(state.set(type, ["a", "b"], "v2").snapshot());
      expect(contentsOf(envoy.last(type))).toEqual(["a"]);
    }
  });

  it("rule 23: a name that was dropped is answered when it is asked for again, at an unchanged version", () => {
    const envoy = holding(ENDPOINT_TYPE, world(ENDPOINT_TYPE, ["a", "b"]), ["a", "b"]);
    envoy.rename(ENDPOINT_TYPE, ["b"], "1");
    envoy.rename(ENDPOINT_TYPE, ["a", "b"], "1");
    expect(envoy.take()).toEqual(["EDS +a"]);
  });

  it("requests without a nonce add up, so that a client that has just reconnected loses no name", () => {
    const envoy = new SotwEnvoy();
    envoy.start(ENDPOINT_TYPE, ["a"]);
    envoy.rename(ENDPOINT_TYPE, ["a", "b"], "");
    envoy.publish(world(ENDPOINT_TYPE, ["a", "b"]).snapshot());
    expect(envoy.take()).toEqual(["EDS +a +b"]);
  });

  it("a type that was dropped whole is answered again, whatever the nonce", () => {
    for (const nonce of ["1", "", "of another stream"]) {
      const envoy = holding(ENDPOINT_TYPE, world(ENDPOINT_TYPE, ["a"]), ["a"]);
      envoy.rename(ENDPOINT_TYPE, [], "1");
      envoy.rename(ENDPOINT_TYPE, ["a"], nonce);
      expect(envoy.take()).toEqual(["EDS +a"]);
    }
  });

  it("rule 39: names that exist are answered, whatever else was asked for", () => {
    const envoy = new SotwEnvoy();
    envoy.publish(world(ENDPOINT_TYPE, ["a", "b", "c"]).snapshot());
    envoy.start(ENDPOINT_TYPE, ["no such", "b"]);
    expect(envoy.take()).toEqual(["EDS +b"]);
  });

  it("rule 40: endpoints of a cluster that was deleted while it warms are empty, where clusters travel on the stream", () => {
    const envoy = new SotwEnvoy();
    envoy.publish(world(CLUSTER_TYPE, ["a"]).snapshot());
    envoy.start(CLUSTER_TYPE);
    envoy.publish(new World().snapshot());
    envoy.start(ENDPOINT_TYPE, ["a"]);
    const answer = envoy.last(ENDPOINT_TYPE);
    expect(answer?.contents.map(({ name, isEmpty }) => [name, isEmpty])).toEqual([["a", true]]);
    envoy.ack(answer);
    envoy.take();
    envoy.publish(world(CLUSTER_TYPE, ["a"]).set(ENDPOINT_TYPE, ["a"], "v1").snapshot());
    expect(envoy.take()).toEqual(["EDS +a"]);
  });

  it("rule 25: a name is listed once, however often it is asked for", () => {
    const envoy = new SotwEnvoy();
    envoy.publish(world(CLUSTER_TYPE, ["a"]).snapshot());
    envoy.start(CLUSTER_TYPE, ["a", "*", "a", "*"]);
    expect(contentsOf(envoy.last(CLUSTER_TYPE))).toEqual(["a"]);
  });

  it("rule 27: a full state without a name deletes it, an empty one deletes all; partial types keep what is gone", () => {
    const envoy = holding(CLUSTER_TYPE, world(CLUSTER_TYPE, ["a", "b"]).set(ENDPOINT_TYPE, ["a"], "v1"));
    envoy.start(ENDPOINT_TYPE, ["a"]);
    envoy.acceptAll();
    envoy.publish(world(CLUSTER_TYPE, ["b"]).snapshot());
    const second = envoy.last(CLUSTER_TYPE);
    expect(contentsOf(second)).toEqual(["b"]);
    expect(envoy.take()).toEqual(["CDS -a"]);
    envoy.ack(second);
    envoy.publish(new World().snapshot());
    expect(contentsOf(envoy.last(CLUSTER_TYPE))).toEqual([]);
    expect(envoy.take()).toEqual(["CDS -b"]);
  });

  it("rule 28: a first wildcard is answered even when there is nothing", () => {
    const envoy = new SotwEnvoy();
    envoy.publish(new World().snapshot());
    for (const type of [CLUSTER_TYPE, LISTENER_TYPE, SCOPE_TYPE] as const) envoy.start(type);
    expect(envoy.take()).toEqual(["CDS", "LDS", "SRDS"]);
  });

  it("rule 44: what changes while a response is under way is merged into the next", () => {
    const envoy = holding(CLUSTER_TYPE, world(CLUSTER_TYPE, ["a"]));
    for (const revision of ["v2", "v3", "v4"]) envoy.publish(world(CLUSTER_TYPE, ["a"], revision).snapshot());
    const first = envoy.last(CLUSTER_TYPE);
    expect(envoy.take()).toHaveLength(1);
    envoy.ack(first);
    const version = world(CLUSTER_TYPE, ["a"], "v4").snapshot().typeVersions[CLUSTER_TYPE];
    expect(envoy.last(CLUSTER_TYPE)?.systemVersion).toBe(version);
    expect(envoy.take()).toHaveLength(1);
  });
});

describe("a version that nobody remembers", () => {
  it("gets the whole state at once, and is parked as a whole when it is refused", () => {
    const envoy = new SotwEnvoy();
    const state = world(CLUSTER_TYPE, ["a", "b"]);
    envoy.publish(state.snapshot());
    envoy.start(CLUSTER_TYPE, [], "of a process that is gone");
    expect(envoy.take()).toEqual(["CDS +a +b"]);
    envoy.nack({ typeUrl: CLUSTER_TYPE, nonce: "1", systemVersion: "" }, "one of them");
    envoy.publish(state.snapshot());
    // One at a time would delete all others.
    expect(envoy.take()).toEqual([]);
    expect(envoy.session.unsettledTypes()).toEqual([]);
    expect(envoy.node.rejections.map(({ name }) => name)).toEqual(["a", "b"]);
    envoy.publish(state.set(CLUSTER_TYPE, ["b"], "v2").snapshot());
    const whole = envoy.last(CLUSTER_TYPE);
    expect(envoy.take()).toEqual(["CDS +a +b"]);
    envoy.ack(whole);
    expect(envoy.node.rejections).toEqual([]);
    envoy.publish(state.set(CLUSTER_TYPE, ["b"], "v3").snapshot());
    expect(envoy.take()).toEqual(["CDS +b"]);
  });

  it("is told that named resources are gone", () => {
    const envoy = new SotwEnvoy();
    envoy.publish(new World().snapshot());
    envoy.start(LISTENER_TYPE, ["l"], "of a process that is gone");
    expect(envoy.take()).toEqual(["LDS"]);
  });
});

describe("a version that is remembered", () => {
  it("is brought up to date by what changed, and keeps what it refused before at what it replaced", () => {
    const recent = new RecentStates();
    const node = new NodeRecord("envoy-1");
    const first = new SotwEnvoy(node, recent, true);
    first.publish(world(CLUSTER_TYPE, ["a", "b", "gone"]).snapshot());
    first.start(CLUSTER_TYPE);
    first.ack(first.last(CLUSTER_TYPE));
    const bad = world(CLUSTER_TYPE, ["a", "b", "gone"]).set(CLUSTER_TYPE, ["a"], "bad");
    first.publish(bad.snapshot());
    first.nack(first.last(CLUSTER_TYPE), "no");
    const second = new SotwEnvoy(node, recent, true);
    second.publish(bad.set(CLUSTER_TYPE, ["b"], "v2").remove(CLUSTER_TYPE, "gone").snapshot());
    second.start(CLUSTER_TYPE, [], first.version(CLUSTER_TYPE));
    expect(second.last(CLUSTER_TYPE)?.contents.map(({ name }) => name)).toEqual(["a", "b"]);
    expect(second.take()).toEqual(["CDS +b -gone"]);
  });

  it("is also remembered when only this client was sent it, because something in it had been refused", () => {
    const node = new NodeRecord("envoy-1");
    const first = new SotwEnvoy(node, new RecentStates(), true);
    first.publish(world(CLUSTER_TYPE, ["a", "b"]).snapshot());
    first.start(CLUSTER_TYPE);
    first.ack(first.last(CLUSTER_TYPE));
    const bad = world(CLUSTER_TYPE, ["a", "b"]).set(CLUSTER_TYPE, ["a"], "bad");
    first.publish(bad.snapshot());
    first.nack(first.last(CLUSTER_TYPE), "no");
    first.publish(bad.set(CLUSTER_TYPE, ["b"], "v2").snapshot());
    const between = first.last(CLUSTER_TYPE);
    first.ack(between);
    const second = new SotwEnvoy(node, new RecentStates(), true);
    second.publish(bad.set(CLUSTER_TYPE, ["c"], "v1").snapshot());
    second.start(CLUSTER_TYPE, [], first.version(CLUSTER_TYPE));
    expect(contentsOf(second.last(CLUSTER_TYPE))).toEqual(["a", "b", "c"]);
    const last = second.last(CLUSTER_TYPE);
    expect(second.take()).toEqual(["CDS +c"]);
    second.ack(last);
    // Older states are let go once a newer one was accepted.
    expect(node.recallState(CLUSTER_TYPE, between?.systemVersion ?? "")).toBeUndefined();
    expect(node.recallState(CLUSTER_TYPE, last?.systemVersion ?? "")).toBeDefined();
  });
});
