import { Stage } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { describe, expect, it } from "vitest";
import { stageMoveProblem } from "./stage-order.js";

const { STAGE_UNSPECIFIED, STAGE_REGISTERED, STAGE_STAGING, STAGE_PRODUCTION, STAGE_ARCHIVED } = Stage;
const ALL = [STAGE_UNSPECIFIED, STAGE_REGISTERED, STAGE_STAGING, STAGE_PRODUCTION, STAGE_ARCHIVED, 9 as Stage];

describe("stageMoveProblem", () => {
  it("allows exactly the steps of the order, and withdrawal from anywhere", () => {
    const allowed = ALL.flatMap((from) =>
      ALL.filter((to) => stageMoveProblem(from, to) === undefined).map((to) => `${from}>${to}`),
    );
    expect(allowed).toEqual(["1>2", "1>4", "2>3", "2>4", "3>4"]);
  });

  it.each([
    [
      STAGE_REGISTERED,
      STAGE_PRODUCTION,
      "in stage registered cannot move to production; move it to staging or archived",
    ],
    [STAGE_STAGING, STAGE_STAGING, "in stage staging already"],
    [STAGE_ARCHIVED, STAGE_PRODUCTION, "archived for good; register a new version"],
    [STAGE_PRODUCTION, STAGE_REGISTERED, "registered cannot be moved to"],
    [STAGE_STAGING, STAGE_UNSPECIFIED, "write staging, production or archived"],
    [STAGE_UNSPECIFIED, STAGE_STAGING, "the version's stage cannot be read"],
  ])("says why %s cannot become %s", (from, to, problem) => {
    expect(stageMoveProblem(from, to)).toContain(problem);
  });
});
