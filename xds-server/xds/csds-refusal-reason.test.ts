import { expect, it } from "vitest";
import { refusalReason } from "./csds-refusal-reason.js";

it.each([
  ["Unable to create Wasm plugin gate", "plugin"],
  ["error adding listener '127.0.0.1:8080': cannot bind '127.0.0.1:8080': Address already in use", "address"],
  ["Only unique values for domains are permitted. Duplicate entry of domain * in route routes/ranker", "duplicate"],
  ["route: unknown cluster 'model/ranker/99'", "unknown_reference"],
  ["Didn't find a registered implementation for 'gate'", "unknown_reference"],
  ["Proto constraint validation failed (ClusterWeight.Weight: value must be greater than or equal to 1)", "validation"],
  ["Clusters: must contain at least 1 item", "validation"],
  ["Unable to unpack as envoy.config.cluster.v3.Cluster", "malformed"],
  ["bad\u001b[2J weight", "other"],
  ["", "other"],
])("%j is %s", (words, reason) => {
  expect(refusalReason(words)).toBe(reason);
});
