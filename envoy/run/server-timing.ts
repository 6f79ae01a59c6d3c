/** Durations in ms by stage, in the order of the `server-timing` header. Entries without a duration are left out. */
export function parseServerTiming(header: string | undefined): ReadonlyMap<string, number> {
  const stages = new Map<string, number>();
  for (const entry of (header ?? "").split(",")) {
    const [name, ...parameters] = entry.split(";").map((part) => part.trim());
    const duration = parameters.find((parameter) => parameter.startsWith("dur="));
    const valueMs = Number(duration?.slice("dur=".length));
    if (name !== undefined && name !== "" && duration !== undefined && Number.isFinite(valueMs))
      stages.set(name, valueMs);
  }
  return stages;
}
