/** Rows in columns, each as wide as its longest cell; the last one is as long as it likes. Empty without rows. */
export function formatTable(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return "";
  const lines = [heads, ...rows].map((cells) => cells.map(printable));
  const widths = heads.map((_, column) => Math.max(...lines.map((cells) => (cells[column] ?? "").length)));
  return lines
    .map((cells) =>
      cells
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .map((line) => `${line}\n`)
    .join("");
}

/** Texts of records and of Envoys may hold anything; a terminal must not obey them. */
function printable(text: string): string {
  return text.replace(/\p{Cc}+/gu, " ");
}
