import { Stage } from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";

/** A stage in people's words, such as `staging`; `unspecified` for none. */
export function stageWord(stage: Stage): string {
  switch (stage) {
    case Stage.STAGE_REGISTERED:
      return "registered";
    case Stage.STAGE_STAGING:
      return "staging";
    case Stage.STAGE_PRODUCTION:
      return "production";
    case Stage.STAGE_ARCHIVED:
      return "archived";
    default:
      return "unspecified";
  }
}
