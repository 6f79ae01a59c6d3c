import { type RoundResult, runOpenLoop } from "./open-loop.js";
import { cpuSecondsOf } from "./process-cpu.js";
import { medianOf, quantileOf } from "./statistics.js";

/** One way to the same model: what is called, and whose CPU it costs. */
export interface Leg {
  readonly name: string;
  /** Processes on the way, with their descendants. The load generator is not one of them. */
  readonly pids: readonly number[];
  /** One call; rejects when the answer is not the right one. */
  call(): Promise<void>;
}

/** Medians over the rounds of one leg. */
export interface LegFigures {
  readonly name: string;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** CPU time of all processes on the way, per call. */
  readonly cpuUsPerCall: number;
  readonly calls: number;
  readonly failures: readonly string[];
  /** 99th percentile of how late the load generator was, over all rounds. */
  readonly lateP99Ms: number;
}

export interface InterleaveOptions {
  readonly rounds: number;
  readonly ratePerSecond: number;
  readonly roundMs: number;
  readonly warmUpMs: number;
  /** Told before each round, for progress. */
  readonly onRound?: (round: number, leg: string) => void;
}

interface Round extends RoundResult {
  readonly cpuSeconds: number;
}

/**
 * Measures the legs in turn, round by round, so that what a noisy machine does hits all of them alike, and gives medians over the
 * rounds. Each round starts with another leg, so that none always follows the same neighbour.
 */
export async function interleave(legs: readonly Leg[], options: InterleaveOptions): Promise<readonly LegFigures[]> {
  for (const leg of legs) {
    await runOpenLoop(leg.call, { ratePerSecond: options.ratePerSecond, durationMs: options.warmUpMs });
  }
  const rounds = new Map<string, Round[]>(legs.map((leg) => [leg.name, []]));
  for (let round = 0; round < options.rounds; round++) {
    for (let turn = 0; turn < legs.length; turn++) {
      const leg = legs[(round + turn) % legs.length] as Leg;
      options.onRound?.(round, leg.name);
      rounds.get(leg.name)?.push(await measure(leg, options));
    }
  }
  return legs.map((leg) => figuresOf(leg.name, rounds.get(leg.name) ?? []));
}

async function measure(leg: Leg, options: InterleaveOptions): Promise<Round> {
  const before = cpuOf(leg);
  const result = await runOpenLoop(leg.call, {
    ratePerSecond: options.ratePerSecond,
    durationMs: options.roundMs,
  });
  return { ...result, cpuSeconds: cpuOf(leg) - before };
}

function cpuOf(leg: Leg): number {
  return leg.pids.reduce((sum, pid) => sum + cpuSecondsOf(pid), 0);
}

function figuresOf(name: string, rounds: readonly Round[]): LegFigures {
  const over = (figure: (round: Round) => number) => medianOf(rounds.map(figure));
  return {
    name,
    p50Ms: over((round) => quantileOf(round.latenciesMs, 0.5)),
    p99Ms: over((round) => quantileOf(round.latenciesMs, 0.99)),
    cpuUsPerCall: over((round) => (round.cpuSeconds * 1e6) / (round.latenciesMs.length + round.failures.length)),
    calls: rounds.reduce((sum, round) => sum + round.latenciesMs.length + round.failures.length, 0),
    failures: rounds.flatMap((round) => round.failures),
    lateP99Ms: quantileOf(
      rounds.flatMap((round) => round.lateMs),
      0.99,
    ),
  };
}
