import { describe, expect, it } from "vitest";
import {
  CLUSTER_TYPE,
  ENDPOINT_TYPE,
  EXTENSION_TYPE,
  LISTENER_TYPE,
  type ResourceType,
  ROUTE_TYPE,
  SECRET_TYPE,
} from "../snapshot/resource-types.js";
import { deltaAsk, sotwAsk } from "./discovery-ask.js";
import { DELTA_ADS, Envoy } from "./hand-driven-envoy-fixture.js";
import { SotwEnvoy } from "./hand-driven-sotw-fixture.js";
import { NodeRecord } from "./node-record.js";
import { type Outgoing, StreamSession } from "./stream-session.js";
import { World } from "./world-fixture.js";

/** Faults that other xDS servers had with the names of a subscription; each test carries where it was seen. */

const world = (type: ResourceType, names: readonly string[], revision = "v1"): World =>
  new World().set(type, names, revision);

/** The two protocols as one client that names what it wants. */
interface Namer {
  publish(state: World): void;
  /** First request of a type. */
  start(type: ResourceType, names: readonly string[]): void;
  /** `now` is the whole list; `nonce` is that of a response. */
  change(type: ResourceType, before: readonly string[], now: readonly string[], nonce: string): void;
  readonly envoy: Envoy;
}

function deltaNamer(): Namer {
  const envoy = new Envoy();
  return {
    envoy,
    publish: (state) => envoy.session.setTarget(state.snapshot(), 0),
    start: (type, names) => envoy.ask(type, names),
    change: (typeUrl, before, now) =>
      envoy.request({
        typeUrl,
        resourceNamesSubscribe: now.filter((name) => !before.includes(name)),
        resourceNamesUnsubscribe: before.filter((name) => !now.includes(name)),
      }),
  };
}

function sotwNamer(): Namer {
  const envoy = new SotwEnvoy();
  return {
    envoy,
    publish: (state) => envoy.publish(state.snapshot()),
    start: (type, names) => envoy.start(type, names),
    change: (type, _, now, nonce) => envoy.rename(type, now, nonce),
  };
}

/** `name` of each resource that was written since the last call, in order; nothing of removals. */
function written(envoy: Envoy): string[] {
  return envoy.wire.splice(0).flatMap(({ items }) => items.flatMap((item) => (item.resource ? [item.name] : [])));
}

const NAMED_TYPES = [CLUSTER_TYPE, ENDPOINT_TYPE, SECRET_TYPE, LISTENER_TYPE, ROUTE_TYPE, EXTENSION_TYPE] as const;

describe.each([
  { protocol: "delta", connect: deltaNamer },
  { protocol: "state of the world", connect: sotwNamer },
])("names by $protocol", ({ connect }) => {
  it.each(NAMED_TYPES)("fault 18 (gcp#1356): a watch of a %s that cannot be answered yet survives", (type) => {
    const client = connect();
    client.publish(world(type, ["other"]));
    client.start(type, ["late"]);
    for (const revision of ["v2", "v3", "v4"]) {
      client.publish(world(type, ["other"], revision));
      for (const response of [...client.envoy.wire]) client.envoy.ack(response);
      expect(written(client.envoy).filter((name) => name !== "late")).toEqual([]);
    }
    client.publish(world(type, ["other", "late"], "v5"));
    expect(written(client.envoy)).toEqual(["late"]);
  });

  it.each([SECRET_TYPE, ENDPOINT_TYPE, EXTENSION_TYPE, ROUTE_TYPE] as const)(
    "fault 14 (gcp#615): a %s that is asked for while another is under way is kept up to date like it",
    (type) => {
      const client = connect();
      client.publish(world(type, ["a", "b"]));
      client.start(type, ["a"]);
      const first = client.envoy.last(type);
      expect(written(client.envoy)).toEqual(["a"]);
      client.change(type, ["a"], ["a", "b"], "");
      expect(written(client.envoy)).toEqual([]);
      client.envoy.ack(first);
      for (let round = 0; round < 5; round += 1) {
        const second = client.envoy.last(type);
        expect(written(client.envoy)).toEqual(round === 0 ? ["b"] : ["a", "b"]);
        client.envoy.ack(second);
        client.publish(world(type, ["a", "b"], `rotation-${round}`));
      }
    },
  );

  it.each([ENDPOINT_TYPE, ROUTE_TYPE] as const)(
    "fault 17 (gcp#1498, kgateway#14654): what waits of a %s is not sent once its name is dropped",
    (type) => {
      const client = connect();
      client.publish(world(type, ["a", "b"]));
      client.start(type, ["a", "b"]);
      const first = client.envoy.last(type);
      expect(written(client.envoy)).toEqual(["a", "b"]);
      client.publish(world(type, ["a", "b"], "v2"));
      client.change(type, ["a", "b"], ["b"], first?.nonce ?? "");
      client.envoy.ack(first);
      expect(written(client.envoy)).toEqual(["b"]);
    },
  );

  it("rule 26: a name is matched as it is, not by case, prefix or pattern", () => {
    const names = ["a", "A", "a/", "a/1", "a/*", "xdstp://authority/a"];
    for (const wanted of names) {
      const client = connect();
      client.publish(world(ENDPOINT_TYPE, names));
      client.start(ENDPOINT_TYPE, [wanted]);
      expect(written(client.envoy)).toEqual([wanted]);
    }
    for (const stranger of ["", "a ", "a/**", "a/2", "xdstp://authority/*"]) {
      const client = connect();
      client.publish(world(ENDPOINT_TYPE, names));
      client.start(ENDPOINT_TYPE, [stranger]);
      expect(written(client.envoy)).toEqual([]);
    }
  });
});

it("fault 13 (gcp#612): every change of a filter comes by delta, once", () => {
  const client = deltaNamer();
  client.publish(world(EXTENSION_TYPE, ["f", "g"], "v0"));
  client.start(EXTENSION_TYPE, ["f", "g"]);
  client.envoy.acceptAll();
  for (let round = 1; round <= 20; round += 1) {
    client.publish(world(EXTENSION_TYPE, ["f"], `v${round}`).set(EXTENSION_TYPE, ["g"], "v0"));
    expect(client.envoy.acceptAll()).toEqual(["ECDS +f"]);
  }
});

describe("fault 22 (jcp#222, grpc#29583): two requests without a nonce after a restart", () => {
  it("are answered with the names of both when the state comes after them", () => {
    const client = new SotwEnvoy();
    client.start(ENDPOINT_TYPE, ["a"], "version before the restart");
    client.rename(ENDPOINT_TYPE, ["a", "b"], "");
    client.publish(world(ENDPOINT_TYPE, ["a", "b"]).snapshot());
    expect(written(client)).toEqual(["a", "b"]);
  });

  it("are both answered when the state is there, whether the second repeats the name of the first or not", () => {
    for (const second of [["a", "b"], ["b"]]) {
      const client = new SotwEnvoy();
      client.publish(world(ENDPOINT_TYPE, ["a", "b"]).snapshot());
      client.start(ENDPOINT_TYPE, ["a"], "version before the restart");
      const first = client.last(ENDPOINT_TYPE);
      client.rename(ENDPOINT_TYPE, second, "");
      client.ack(first);
      expect(written(client)).toEqual(["a", "b"]);
    }
  });
});

it("fault 26 (envoy#10363): a name that is added while updates come at the client's pace is answered in one turn", () => {
  const names = ["n0"];
  const all = Array.from({ length: 21 }, (_, index) => `n${index}`);
  const client = new SotwEnvoy();
  client.publish(world(ENDPOINT_TYPE, all).snapshot());
  client.start(ENDPOINT_TYPE, names);
  for (let round = 1; round <= 20; round += 1) {
    const before = client.last(ENDPOINT_TYPE);
    client.ack(before);
    client.wire.length = 0;
    client.publish(world(ENDPOINT_TYPE, all, `v${round}`).snapshot());
    // The update is under way when the client names one more, with the nonce of the response before.
    names.push(`n${round}`);
    client.rename(ENDPOINT_TYPE, [...names], before?.nonce ?? "");
    client.ack(client.last(ENDPOINT_TYPE));
    expect(client.last(ENDPOINT_TYPE)?.items.map(({ name }) => name)).toContain(`n${round}`);
  }
});

describe("fault 23 (jcp#70): a client that answers while it is still being written to", () => {
  const types = [CLUSTER_TYPE, ENDPOINT_TYPE, LISTENER_TYPE, ROUTE_TYPE] as const;
  const names = (typeUrl: string): string[] => (typeUrl === CLUSTER_TYPE || typeUrl === LISTENER_TYPE ? [] : ["a"]);
  const blank = { node: undefined, errorDetail: undefined, resourceLocators: [] };

  it.each(["delta", "sotw"] as const)("is never stale by %s", (protocol) => {
    const wire: string[] = [];
    let acceptedCount = 0;
    let nowMs = 0;
    const settings = { ...DELTA_ADS, protocol };
    const answer = ({ typeUrl, nonce, systemVersion }: Outgoing): void => {
      wire.push(nonce);
      session.request(
        protocol === "delta" ? deltaAnswer(typeUrl, nonce) : sotwAnswer(typeUrl, nonce, systemVersion),
        nowMs,
      );
    };
    const session: StreamSession = new StreamSession(new NodeRecord("instant"), settings, {
      write: answer,
      accepted: () => {
        acceptedCount += 1;
      },
      refused: () => undefined,
      waitExpired: () => undefined,
    });
    const state = (revision: string) => {
      const next = new World();
      for (const type of types) next.set(type, ["a"], revision);
      return next.snapshot();
    };
    session.setTarget(state("v0"), nowMs);
    for (const type of types)
      session.request(protocol === "delta" ? deltaStart(type) : sotwAnswer(type, "", ""), nowMs);
    for (let round = 1; round <= 100; round += 1) {
      nowMs += 1;
      session.setTarget(state(`v${round}`), nowMs);
      expect(session.unsettledTypes()).toEqual([]);
    }
    expect(acceptedCount).toBe(wire.length);
    // A changed cluster is followed by its endpoints, so a round is four responses or a few more, but no loop.
    expect(wire.length).toBeGreaterThanOrEqual(404);
    expect(wire.length).toBeLessThan(1_000);
  });

  function deltaAnswer(typeUrl: string, responseNonce: string) {
    return deltaAsk({ ...blank, typeUrl, responseNonce, ...DELTA_EMPTY });
  }

  function deltaStart(typeUrl: string) {
    return deltaAsk({ ...blank, typeUrl, responseNonce: "", ...DELTA_EMPTY, resourceNamesSubscribe: names(typeUrl) });
  }

  function sotwAnswer(typeUrl: string, responseNonce: string, versionInfo: string) {
    return sotwAsk({ ...blank, typeUrl, responseNonce, versionInfo, resourceNames: names(typeUrl) });
  }
});

const DELTA_EMPTY = {
  resourceNamesSubscribe: [],
  resourceNamesUnsubscribe: [],
  initialResourceVersions: {},
  resourceLocatorsSubscribe: [],
  resourceLocatorsUnsubscribe: [],
};
