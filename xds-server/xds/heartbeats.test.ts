import { Runtime } from "@servemesh/proto/gen/envoy/envoy/service/runtime/v3/rtds.js";
import { beforeEach, describe, expect, it } from "vitest";
import { RUNTIME_TYPE } from "../snapshot/resource-types.js";
import { buildSnapshot, type Snapshot } from "../snapshot/snapshot.js";
import type { DiscoveryAsk, Protocol } from "./discovery-ask.js";
import { COUNTING } from "./hand-driven-envoy-fixture.js";
import { NodeRecord } from "./node-record.js";
import type { ResponseContent } from "./shared-responses.js";
import { type Outgoing, StreamSession } from "./stream-session.js";

const LAYER = "servemesh";

function withLayer(value: number, ttlMs: number | undefined): Snapshot {
  const runtime = Runtime.fromPartial({ name: LAYER, layer: { value } });
  const runtimes = [{ runtime, ttlMs }];
  return buildSnapshot({
    clusters: [],
    endpoints: [],
    listeners: [],
    scopes: [],
    routes: [],
    extensions: [],
    runtimes,
  });
}

/** A client that asks for the layer, at times that a test gives. */
class LayerClient {
  readonly written: { readonly atMs: number; readonly form: string }[] = [];
  readonly session: StreamSession;
  isFull = false;
  #nowMs = 0;
  #last: Outgoing | undefined;
  #form = "";

  constructor(
    readonly protocol: Protocol,
    knowsLimits = true,
  ) {
    const compose = (content: ResponseContent, after: number) => {
      this.#form = content.form;
      return COUNTING(content, after);
    };
    this.session = new StreamSession(
      new NodeRecord("edge"),
      { protocol, isAlone: false, knowsLimits, recall: () => undefined, compose },
      {
        write: (outgoing) => {
          this.#last = outgoing;
          this.written.push({ atMs: this.#nowMs, form: this.#form });
        },
        canWrite: () => !this.isFull,
        accepted: () => undefined,
        refused: () => undefined,
        waitExpired: () => undefined,
      },
    );
  }

  give(snapshot: Snapshot): void {
    this.session.setTarget(snapshot, this.#nowMs);
  }

  ask(refusal?: string): void {
    const version = this.#last?.systemVersion ?? "";
    const ask: DiscoveryAsk = {
      typeUrl: RUNTIME_TYPE,
      nodeId: "edge",
      responseNonce: this.#last?.nonce ?? "",
      refusal,
      names:
        this.protocol === "sotw"
          ? { kind: "all", names: [LAYER] }
          : { kind: "change", subscribe: this.#last === undefined ? [LAYER] : [], unsubscribe: [] },
      holds: this.protocol === "sotw" ? { kind: "type", version } : { kind: "resources", versions: {} },
    };
    this.session.request(ask, this.#nowMs);
  }

  /** Lets time pass as the server's timer does: it wakes the session when that has asked for it. */
  passTo(untilMs: number, answers = true): void {
    for (;;) {
      const wakeAtMs = this.session.wakeAtMs(this.#nowMs);
      if (wakeAtMs === undefined || wakeAtMs > untilMs) break;
      this.#nowMs = Math.max(this.#nowMs + 1, wakeAtMs);
      const before = this.written.length;
      this.session.advance(this.#nowMs);
      if (answers && this.written.length > before) this.ask();
    }
    this.#nowMs = Math.max(this.#nowMs, untilMs);
  }

  /** The server does nothing at all for a while. */
  stall(untilMs: number): void {
    this.#nowMs = untilMs;
    this.session.advance(untilMs);
  }
}

describe.each<Protocol>(["sotw", "delta"])("rule 33: resources with a limit of time, by %s", (protocol) => {
  // Envoy's state of the world needs the content each time.
  const BEAT = protocol === "delta" ? "heartbeat" : "limited";
  let client: LayerClient;

  beforeEach(() => {
    client = new LayerClient(protocol);
    client.give(withLayer(1, 9_000));
    client.ask();
    client.ask();
  });

  it("are told to count on, three times within the limit", () => {
    client.passTo(9_500);
    expect(client.written).toEqual([
      { atMs: 0, form: "limited" },
      { atMs: 3_000, form: BEAT },
      { atMs: 6_000, form: BEAT },
      { atMs: 9_000, form: BEAT },
    ]);
  });

  it("of clients that know of no limits come without one, and never again", () => {
    const plain = new LayerClient(protocol, false);
    plain.give(withLayer(1, 9_000));
    plain.ask();
    plain.ask();
    plain.passTo(60_000);
    expect(plain.written).toEqual([{ atMs: 0, form: "plain" }]);
  });

  it("begin anew with a change", () => {
    client.passTo(2_000);
    client.give(withLayer(2, 9_000));
    client.ask();
    client.passTo(5_500);
    expect(client.written.slice(1)).toEqual([
      { atMs: 2_000, form: "limited" },
      { atMs: 5_000, form: BEAT },
    ]);
  });

  it("need no more words once they have no limit, but that is told", () => {
    client.give(withLayer(1, undefined));
    client.ask();
    client.passTo(60_000);
    expect(client.written.slice(1)).toEqual([{ atMs: 0, form: "limited" }]);
  });

  it("that the client has forgotten, because we were late, are sent again as a whole", () => {
    client.stall(9_000);
    client.ask();
    client.passTo(12_500);
    expect(client.written.slice(1)).toEqual([
      { atMs: 9_000, form: "limited" },
      { atMs: 12_000, form: BEAT },
    ]);
  });

  it("wait for the answer to what is under way, and for room, without waking up all the time", () => {
    client.passTo(3_000, false);
    expect(client.session.wakeAtMs(4_000)).toBeUndefined();
    client.ask();
    client.isFull = true;
    expect(client.session.wakeAtMs(6_500)).toBeUndefined();
    client.isFull = false;
    client.session.resume(7_000);
    expect(client.written.map(({ form }) => form)).toEqual(["limited", BEAT, BEAT]);
  });

  it("that the client refuses to count on are left alone", () => {
    client.passTo(3_000, false);
    client.ask("no such resource");
    client.passTo(60_000);
    expect(client.written.map(({ form }) => form)).toEqual(["limited", BEAT]);
  });
});
