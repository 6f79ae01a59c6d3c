import { describe, expect, it } from "vitest";
import { LISTENER_TYPE } from "../snapshot/resource-types.js";
import { TRIAL_MS, type TypeContent, TypeTrial } from "./type-trial.js";

const content = (version: string): TypeContent => ({ resources: new Map(), version });
const nobody = () => undefined;
const one = () => "one";

/** A trial in which `v1` is what everybody has, and `v2` is tried by the Envoy `one`. */
function tried(): TypeTrial {
  const trial = new TypeTrial(LISTENER_TYPE);
  trial.publish(content("v1"), nobody, 0);
  trial.publish(content("v2"), one, 1_000);
  return trial;
}

const versionsOf = (trial: TypeTrial): (string | undefined)[] =>
  ["one", "two"].map((nodeId) => trial.contentFor(nodeId)?.version);

describe("a type of a group", () => {
  it("has a first content that all get at once", () => {
    const trial = new TypeTrial(LISTENER_TYPE);
    expect(trial.contentFor("one")).toBeUndefined();
    trial.publish(content("v1"), one, 0);
    expect([versionsOf(trial), trial.isHeldBack]).toEqual([["v1", "v1"], false]);
  });

  it("has a new content that one Envoy gets first, and all when it accepts", () => {
    const trial = tried();
    expect([versionsOf(trial), trial.isHeldBack, trial.nodeId]).toEqual([["v2", "v1"], true, "one"]);
    trial.accepted("two");
    expect(trial.isHeldBack).toBe(true);
    trial.accepted("one");
    expect([versionsOf(trial), trial.isHeldBack]).toEqual([["v2", "v2"], false]);
  });

  it("goes to all at once when no Envoy takes the type", () => {
    const trial = new TypeTrial(LISTENER_TYPE);
    trial.publish(content("v1"), nobody, 0);
    trial.publish(content("v2"), nobody, 0);
    expect([versionsOf(trial), trial.isHeldBack]).toEqual([["v2", "v2"], false]);
  });

  it("does not wait longer than 2 s for an Envoy that says nothing", () => {
    const trial = tried();
    expect(trial.deadlineMs).toBe(1_000 + TRIAL_MS);
    trial.expire(2_999);
    expect(versionsOf(trial)).toEqual(["v2", "v1"]);
    trial.expire(3_000);
    expect([versionsOf(trial), trial.deadlineMs]).toEqual([["v2", "v2"], undefined]);
  });

  it("is not begun anew by the same content, and is by another, with the full time", () => {
    const trial = tried();
    trial.publish(content("v2"), () => "two", 2_000);
    expect([trial.nodeId, trial.deadlineMs]).toEqual(["one", 3_000]);
    trial.publish(content("v3"), () => "two", 2_000);
    expect([trial.nodeId, trial.deadlineMs, ...versionsOf(trial)]).toEqual(["two", 4_000, "v1", "v3"]);
  });

  it("ends at once when what all have is published again", () => {
    const trial = tried();
    trial.publish(content("v1"), one, 1_100);
    expect([versionsOf(trial), trial.isHeldBack]).toEqual([["v1", "v1"], false]);
  });
});

describe("a refused content", () => {
  const refused = (): TypeTrial => {
    const trial = tried();
    trial.refused("one", ["gateway"], "bad port");
    return trial;
  };

  it("goes to nobody else, however long it takes", () => {
    const trial = refused();
    expect(trial.refusal).toEqual({ nodeId: "one", names: ["gateway"], words: "bad port" });
    expect(trial.deadlineMs).toBeUndefined();
    trial.expire(1_000_000);
    expect([versionsOf(trial), trial.isHeldBack]).toEqual([["v2", "v1"], true]);
  });

  it("is not released by a late acceptance of something else", () => {
    const trial = refused();
    trial.accepted("one");
    expect(trial.isHeldBack).toBe(true);
  });

  it("is of no concern when an Envoy refuses it that does not try it", () => {
    const trial = tried();
    trial.refused("two", ["gateway"], "bad port");
    expect(trial.refusal).toBeUndefined();
  });

  it("stays refused when the Envoy leaves, and a later one of that name has the last good content", () => {
    const trial = refused();
    trial.left("one", () => "two", 2_000);
    expect([trial.refusal?.words, ...versionsOf(trial)]).toEqual(["bad port", "v1", "v1"]);
  });

  it("ends with a mended content, which is tried in turn", () => {
    const trial = refused();
    trial.publish(content("v3"), () => "two", 5_000);
    expect([trial.refusal, trial.nodeId, trial.deadlineMs]).toEqual([undefined, "two", 5_000 + TRIAL_MS]);
    trial.accepted("two");
    expect(versionsOf(trial)).toEqual(["v3", "v3"]);
  });

  it("is tried once more by an Envoy that has just started, which falls back when it refuses too", () => {
    const trial = refused();
    trial.started("two", 6_000);
    expect([trial.refusal, ...versionsOf(trial)]).toEqual([undefined, "v1", "v2"]);
    trial.refused("two", ["gateway"], "port taken");
    expect([trial.refusal?.words, ...versionsOf(trial)]).toEqual(["port taken", "v1", "v1"]);
    trial.started("three", 7_000);
    trial.accepted("three");
    expect([trial.isHeldBack, ...versionsOf(trial)]).toEqual([false, "v2", "v2"]);
  });
});

describe("the Envoy that tries", () => {
  it("is replaced when it leaves before it answers", () => {
    const trial = tried();
    trial.left("one", () => "two", 1_500);
    expect([trial.nodeId, trial.deadlineMs, ...versionsOf(trial)]).toEqual(["two", 3_500, "v1", "v2"]);
    trial.left("two", nobody, 1_600);
    expect([trial.isHeldBack, ...versionsOf(trial)]).toEqual([false, "v2", "v2"]);
  });

  it("is not replaced when another leaves", () => {
    const trial = tried();
    trial.left("two", nobody, 1_500);
    expect(trial.nodeId).toBe("one");
  });
});
