import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CLUSTER_TYPE, ENDPOINT_TYPE, type ResourceType, ROUTE_TYPE } from "../snapshot/resource-types.js";
import type { AskedNames, Protocol } from "./discovery-ask.js";
import { COUNTING } from "./hand-driven-envoy-fixture.js";
import { NodeRecord } from "./node-record.js";
import { RecentStates } from "./recent-states.js";
import { type Outgoing, StreamSession } from "./stream-session.js";
import { World } from "./world-fixture.js";

/** The same sequences in every run; change it, and raise the count, to search further. */
const SEED = 20_261_130;
const TYPES = [CLUSTER_TYPE, ENDPOINT_TYPE, ROUTE_TYPE] as const;

/** What a client or the mesh may do next. Clients may lie about nonces, versions and what they hold. */
type Move =
  | { readonly kind: "publish"; readonly name: string; readonly revision: string }
  | { readonly kind: "remove"; readonly name: string }
  | {
      readonly kind: "ask";
      readonly type: ResourceType;
      readonly names: readonly string[];
      readonly others: readonly string[];
      readonly nonce: "right" | "made-up" | "";
      readonly refuses: boolean;
      readonly version: string;
    };

const name = fc.constantFrom("a", "b", "c", "*", "");
const move: fc.Arbitrary<Move> = fc.oneof(
  fc.record({ kind: fc.constant("publish" as const), name: fc.constantFrom("a", "b", "c"), revision: fc.string() }),
  fc.record({ kind: fc.constant("remove" as const), name: fc.constantFrom("a", "b", "c") }),
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("ask" as const),
      type: fc.constantFrom(...TYPES),
      names: fc.array(name, { maxLength: 4 }),
      others: fc.array(name, { maxLength: 2 }),
      nonce: fc.constantFrom("right" as const, "right" as const, "made-up" as const, "" as const),
      refuses: fc.boolean(),
      version: fc.constantFrom("", "made-up"),
    }),
  },
);

/** One hostile stream, and what the protocol promises even then. */
class HostileStream {
  readonly #world = new World();
  readonly #recent = new RecentStates();
  readonly #protocol: Protocol;
  readonly #session: StreamSession;
  /** The response of each type that was not answered yet. */
  readonly #open = new Map<ResourceType, Outgoing>();
  readonly #lastNames = new Map<ResourceType, readonly string[]>();
  nowMs = 0;

  constructor(protocol: Protocol, isAlone: boolean) {
    this.#protocol = protocol;
    const recall = this.#recent.recall.bind(this.#recent);
    this.#session = new StreamSession(
      new NodeRecord("hostile"),
      { protocol, isAlone, knowsLimits: false, recall, compose: COUNTING },
      {
        write: (outgoing) => this.#check(outgoing),
        accepted: () => undefined,
        refused: () => undefined,
        waitExpired: () => undefined,
      },
    );
  }

  #check(outgoing: Outgoing): void {
    const { typeUrl, contents, items } = outgoing;
    if (this.#open.has(typeUrl)) throw new Error(`two unanswered responses of ${typeUrl}`);
    this.#open.set(typeUrl, outgoing);
    for (const names of [contents.map((resource) => resource.name), items.map((item) => item.name)]) {
      expect(new Set(names).size).toBe(names.length);
    }
  }

  play(step: Move): void {
    this.nowMs += 1;
    if (step.kind === "publish") for (const type of TYPES) this.#world.set(type, [step.name], step.revision);
    if (step.kind === "remove") for (const type of TYPES) this.#world.remove(type, step.name);
    if (step.kind !== "ask") {
      this.publish();
      return;
    }
    const { type, names, others, refuses, version } = step;
    const nonce = step.nonce === "right" ? (this.#open.get(type)?.nonce ?? "") : step.nonce;
    this.#ask(
      type,
      this.#protocol === "sotw" ? { kind: "all", names } : { kind: "change", subscribe: names, unsubscribe: others },
      { nonce, refusal: refuses ? "hostile" : undefined, version },
    );
  }

  publish(): void {
    const snapshot = this.#world.snapshot();
    this.#recent.remember(snapshot);
    this.#session.setTarget(snapshot, this.nowMs);
    expect(this.#session.misjudgedTypes()).toEqual([]);
  }

  /** From now on it is honest: it accepts all that comes, until nothing comes any more. */
  comeToRest(): void {
    this.nowMs += 10_000;
    this.#session.advance(this.nowMs);
    for (let rounds = 0; this.#open.size > 0; rounds += 1) {
      if (rounds > 1_000) throw new Error("never comes to rest");
      const [next] = this.#open.values();
      if (next === undefined) break;
      const { typeUrl: type, nonce } = next;
      const names: AskedNames =
        this.#protocol === "sotw"
          ? { kind: "all", names: this.#lastNames.get(type) ?? [] }
          : { kind: "change", subscribe: [], unsubscribe: [] };
      this.#ask(type, names, { nonce, refusal: undefined, version: "" });
      this.nowMs += 10_000;
      this.#session.advance(this.nowMs);
    }
    expect(this.#session.unsettledTypes()).toEqual([]);
  }

  #ask(
    typeUrl: ResourceType,
    names: AskedNames,
    more: { readonly nonce: string; readonly refusal: string | undefined; readonly version: string },
  ): void {
    if (names.kind === "all") this.#lastNames.set(typeUrl, names.names);
    if (this.#open.get(typeUrl)?.nonce === more.nonce) this.#open.delete(typeUrl);
    const { nonce: responseNonce, refusal, version } = more;
    const versions: Record<string, string> = version === "" ? {} : { a: version, gone: version };
    const isDelta = this.#protocol === "delta";
    this.#session.request(
      {
        typeUrl,
        nodeId: "",
        responseNonce,
        refusal,
        names,
        holds: isDelta ? { kind: "resources", versions } : { kind: "type", version },
      },
      this.nowMs,
    );
    expect(this.#session.misjudgedTypes()).toEqual([]);
  }
}

describe("any sequence of requests, honest or not", () => {
  const streams = (["delta", "sotw"] as const).flatMap((protocol) =>
    [true, false].map((isAlone) => ({ protocol, isAlone })),
  );
  it.each(streams)(
    "leaves a $protocol stream (alone: $isAlone) with one response under way, no name twice, and an end",
    ({ protocol, isAlone }) => {
      fc.assert(
        fc.property(fc.array(move, { maxLength: 30 }), (moves) => {
          const stream = new HostileStream(protocol, isAlone);
          stream.publish();
          for (const step of moves) stream.play(step);
          stream.comeToRest();
        }),
        { numRuns: 300, seed: SEED },
      );
    },
  );
});
