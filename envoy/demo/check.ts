/** One thing that must hold, with what came back; the form of `--json`. */
export interface Check {
  readonly name: string;
  readonly pass: boolean;
  readonly value: unknown;
  readonly expected: unknown;
}

/** What came back must be exactly this. */
export function checkEqual(name: string, value: string | number | boolean | undefined, expected: typeof value): Check {
  return { name, pass: value === expected, value: value ?? null, expected };
}

/** What came back must be one of these. */
export function checkOneOf(name: string, value: string | undefined, expected: readonly string[]): Check {
  return {
    name,
    pass: value !== undefined && expected.includes(value),
    value: value ?? null,
    expected: expected.join(" or "),
  };
}

/** A number that must lie in a range, both ends included. */
export function checkBetween(name: string, value: number, low: number, high: number): Check {
  return { name, pass: value >= low && value <= high, value, expected: `${low} to ${high}` };
}

/** A number that must not be smaller. */
export function checkAtLeast(name: string, value: number, low: number): Check {
  return { name, pass: value >= low, value, expected: `at least ${low}` };
}
