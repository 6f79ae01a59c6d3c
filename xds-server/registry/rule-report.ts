/** Collects what is wrong with a record; each message names a field, its problem and the remedy. */
export class RuleReport {
  readonly problems: string[] = [];

  /** Adds the message unless the rule holds. */
  check(holds: boolean, message: string): boolean {
    if (!holds) this.problems.push(message);
    return holds;
  }

  atMost(field: string, count: number, limit: number, unit: string): boolean {
    return this.check(count <= limit, `${field} has ${count} ${unit}, but at most ${limit} are possible; remove some`);
  }

  textLength(field: string, text: string, limit: number): void {
    this.atMost(field, text.length, limit, "characters");
  }

  /** Every text at most once. */
  unique(field: string, texts: readonly string[]): void {
    const seen = new Set<string>();
    for (const text of texts) {
      if (!this.check(!seen.has(text), `${field}: ${shown(text)} is listed twice; list it once`)) return;
      seen.add(text);
    }
  }

  /** The field repeats what the key says. */
  matchesKey(field: string, value: string | bigint, inKey: string | bigint): void {
    this.check(
      value === inKey,
      `${field} is ${shown(String(value))} but the key says ${shown(String(inKey))}; make them equal`,
    );
  }
}

/** A text in quotes, cut so that a message stays readable. */
export function shown(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
}
