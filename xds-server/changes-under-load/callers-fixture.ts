import { callRest } from "../xds/doors-fixture.js";
import { pause } from "../xds/mesh-fixture.js";

/** A caller's rest between two calls: the load must leave the control plane some of the machine. */
const THINK_MS = 4;

/** A time in which a version may answer calls of a model; without an end while it is so. */
interface Span {
  readonly fromMs: number;
  untilMs: number;
}

/**
 * Which versions may answer calls of which model, and when. What leaves may still answer until every Envoy has taken the
 * change; what comes may answer from the moment before the change is written.
 */
export class AnsweringVersions {
  /** By `model version`. */
  readonly #spans = new Map<string, Span[]>();
  readonly #now = new Map<string, ReadonlySet<string>>();

  /** @param versions by model, as the registry is about to say */
  become(versions: ReadonlyMap<string, ReadonlySet<string>>): void {
    for (const [model, references] of versions) {
      for (const reference of references) {
        if (this.#now.get(model)?.has(reference)) continue;
        const key = `${model} ${reference}`;
        const spans = this.#spans.get(key) ?? [];
        spans.push({ fromMs: performance.now(), untilMs: Number.POSITIVE_INFINITY });
        this.#spans.set(key, spans);
      }
    }
    for (const model of this.#now.keys()) if (!versions.has(model)) this.#now.delete(model);
    for (const [model, references] of versions) this.#now.set(model, references);
  }

  /** All Envoys know what was said last: nothing else answers from now on. */
  settle(): void {
    for (const [key, spans] of this.#spans) {
      const [model = "", reference = ""] = key.split(" ");
      const isNow = this.#now.get(model)?.has(reference) ?? false;
      for (const span of isNow ? spans.slice(0, -1) : spans) span.untilMs = Math.min(span.untilMs, performance.now());
    }
  }

  mayAnswer(model: string, reference: string, call: { readonly startedMs: number; readonly endedMs: number }): boolean {
    const spans = this.#spans.get(`${model} ${reference}`) ?? [];
    return spans.some(({ fromMs, untilMs }) => fromMs <= call.endedMs && untilMs >= call.startedMs);
  }
}

/** Callers of one Envoy, each of which calls one callable model after the other until `stop`. */
export class Callers {
  readonly callable = new Set<string>();
  /** What went wrong, in words. */
  readonly failures: string[] = [];
  answered = 0;
  /** Calls that run, with their model. */
  readonly #inFlight = new Map<Promise<void>, string>();
  readonly #running: Promise<void>[];
  #isOver = false;

  constructor(
    private readonly door: { readonly name: string; readonly port: number; readonly key: string },
    private readonly answering: AnsweringVersions,
    private readonly random: (below: number) => number,
    count: number,
  ) {
    this.#running = Array.from({ length: count }, () => this.#run());
  }

  /** Nobody calls the model from here on; resolves when the calls that run have ended. */
  async withdraw(model: string): Promise<void> {
    this.callable.delete(model);
    await Promise.all([...this.#inFlight].filter(([, called]) => called === model).map(([call]) => call));
  }

  /**
   * Whatever the Envoy's main thread acknowledged before counts for every call that runs when this resolves: its only worker
   * has answered one more, and all that it took before.
   */
  async flush(): Promise<void> {
    await fetch(`http://127.0.0.1:${this.door.port}/`).then((response) => response.arrayBuffer());
    await Promise.all(this.#inFlight.keys());
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#running);
  }

  async #run(): Promise<void> {
    while (!this.#isOver) {
      const models = [...this.callable];
      const model = models[this.random(models.length)];
      if (model !== undefined) {
        const call = this.#call(model);
        this.#inFlight.set(call, model);
        await call;
        this.#inFlight.delete(call);
      }
      await pause(THINK_MS);
    }
  }

  async #call(model: string): Promise<void> {
    const reference = this.random(2) === 0 ? model : `${model}@prod`;
    const problem = await this.#problemOf(model, reference);
    if (problem === undefined) this.answered += 1;
    else this.failures.push(`${this.door.name}, ${reference}, at ${Math.round(performance.now())} ms: ${problem}`);
  }

  async #problemOf(model: string, reference: string): Promise<string | undefined> {
    const startedMs = performance.now();
    const { port, key } = this.door;
    try {
      const answer = await callRest(port, { path: `/v1/models/${reference}:predict`, headers: { "x-api-key": key } });
      const { status, servedBy, body } = answer;
      if (status !== 200 || servedBy === null) return `status ${status} ${JSON.stringify(body)}`;
      const endedMs = performance.now();
      return this.answering.mayAnswer(model, servedBy, { startedMs, endedMs })
        ? undefined
        : `${servedBy} must not answer any more, or not yet, a call of ${Math.round(endedMs - startedMs)} ms`;
    } catch (error) {
      const cause = (error as Error).cause;
      return `${error}${cause === undefined ? "" : `: ${cause}`}`;
    }
  }
}
