/** A figure with its limit, as an issue or DESIGN §10 names it. */
export interface Bar {
  readonly name: string;
  readonly value: number;
  /** Largest value that passes. */
  readonly bar: number;
  readonly pass: boolean;
}

/** What a benchmark gives back; its last line is this as JSON. */
export interface BenchResult {
  readonly bench: string;
  readonly bars: readonly Bar[];
  /** Further figures, for people and for RESULTS.md. */
  readonly figures: Readonly<Record<string, number>>;
}

/** A bar that holds when the value is at most `bar`; a value that is not a number never passes. */
export function atMost(name: string, value: number, bar: number): Bar {
  return { name, value: round(value), bar, pass: value <= bar };
}

/** Three decimals: more would pretend a precision that nobody measured. */
export function round(value: number): number {
  return Math.round(value * 1000) / 1000;
}

/** Rows of cells as a Markdown table whose first row is the head. */
export function markdownTable(rows: readonly (readonly string[])[]): string {
  const [head = [], ...body] = rows;
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), `|${"---|".repeat(head.length)}`, ...body.map(line)].join("\n");
}
