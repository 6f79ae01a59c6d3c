import { Stage } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { stageWord } from "../registry/stage-words.js";

const NEXT: ReadonlyMap<Stage, readonly Stage[]> = new Map([
  [Stage.STAGE_REGISTERED, [Stage.STAGE_STAGING, Stage.STAGE_ARCHIVED]],
  [Stage.STAGE_STAGING, [Stage.STAGE_PRODUCTION, Stage.STAGE_ARCHIVED]],
  [Stage.STAGE_PRODUCTION, [Stage.STAGE_ARCHIVED]],
  [Stage.STAGE_ARCHIVED, []],
]);

/**
 * Whether a version may move: registered → staging → production → archived, one step at a time; it may be archived from
 * anywhere, and nothing leads back, so that what was in production is never anything but that or withdrawn.
 * @returns the problem in one sentence, or undefined when it may
 */
export function stageMoveProblem(from: Stage, to: Stage): string | undefined {
  const possible = NEXT.get(from) ?? [];
  if (possible.includes(to)) return undefined;
  if (!NEXT.has(to) || to === Stage.STAGE_REGISTERED) {
    return `stage ${stageWord(to)} cannot be moved to; write staging, production or archived`;
  }
  if (from === to) return `stage: the version is in stage ${stageWord(from)} already; there is nothing to move`;
  if (from === Stage.STAGE_UNSPECIFIED) {
    return "stage: the version's stage cannot be read, see the findings of the status; repair the record of its last event";
  }
  if (possible.length === 0) return `stage: the version is archived for good; register a new version`;
  return `stage: a version in stage ${stageWord(from)} cannot move to ${stageWord(to)}; move it to ${possible.map(stageWord).join(" or ")}`;
}
