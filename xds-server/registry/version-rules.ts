import type {
  FeatureView,
  ModelVersion,
  ServingSpec,
  TensorSpec,
} from "@servemesh/proto/gen/mesh/servemesh/registry/v1/registry.js";
import { RuleReport, shown } from "./rule-report.js";

/** KServe v2 datatypes (Open Inference Protocol, "Tensor Data Types"). */
const DATATYPES = [
  ...["BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64"],
  ...["FP16", "BF16", "FP32", "FP64", "BYTES"],
];
/** Integers that fit int64, because entity ids are int64. */
const ENTITY_DATATYPES = ["INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32"];

const LIMITS = {
  tensors: 256,
  tensorNameChars: 256,
  dimensions: 16,
  dimension: 2n ** 31n - 1n,
  views: 64,
  viewWidth: 65_536,
  batchRows: 4_096,
  queueDelayUs: 10_000_000,
  queueSize: 100_000,
  inFlight: 64,
  cacheBytes: 16n * 1024n ** 3n,
  lineageEntries: 64,
  lineageChars: 4_096,
  envelopeBytes: 256 * 1024,
};

const PLAIN_NAME = /^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$/;
/** Of the whole artifact: the one meaning of a digest here. */
const DIGEST = /^sha256:[0-9a-f]{64}$/;

/** What is wrong with a version's own content; empty when nothing. */
export function versionProblems(record: ModelVersion): string[] {
  const report = new RuleReport();
  report.check(
    record.artifactDigest === "" || DIGEST.test(record.artifactDigest),
    `artifact_digest is ${shown(record.artifactDigest)} but must be sha256: and 64 hex digits, the digest of the whole artifact`,
  );
  report.atMost("envelope", record.envelope.length, LIMITS.envelopeBytes, "bytes");
  report.atMost("lineage", Object.keys(record.lineage).length, LIMITS.lineageEntries, "entries");
  for (const [name, text] of Object.entries(record.lineage)) {
    report.textLength(`lineage[${shown(name)}]`, name + text, LIMITS.lineageChars);
  }
  if (report.check(record.serving !== undefined, "serving is missing; say what the version's inputs and outputs are")) {
    checkServing(record.serving as ServingSpec, record.artifactDigest, report);
  }
  return report.problems;
}

function checkServing(serving: ServingSpec, artifactDigest: string, report: RuleReport): void {
  for (const [field, tensors] of [
    ["serving.inputs", serving.inputs],
    ["serving.outputs", serving.outputs],
    ["serving.upstream_inputs", serving.upstreamInputs],
  ] as const) {
    checkTensors(field, tensors, report);
  }
  report.check(serving.inputs.length > 0, "serving.inputs is empty; name at least one tensor");
  report.check(serving.outputs.length > 0, "serving.outputs is empty; name at least one tensor");
  checkViews(serving, report);
  checkBatching(serving, report);
  const cache = serving.cache;
  if (cache === undefined) return;
  report.check(
    cache.maxBytes <= LIMITS.cacheBytes,
    `serving.cache.max_bytes ${cache.maxBytes} is above ${LIMITS.cacheBytes}; write a smaller number, or 0 for 64 MiB`,
  );
  report.check(
    !cache.enabled || artifactDigest !== "",
    "artifact_digest is missing, but serving.cache.enabled needs it to tell answers of different artifacts apart",
  );
}

function checkTensors(field: string, tensors: readonly TensorSpec[], report: RuleReport): void {
  if (!report.atMost(field, tensors.length, LIMITS.tensors, "tensors")) return;
  report.unique(
    `${field}.name`,
    tensors.map((tensor) => tensor.name),
  );
  for (const [index, { name, datatype, shape }] of tensors.entries()) {
    const at = `${field}[${index}]`;
    report.check(name !== "", `${at}.name is missing; write the tensor's name`);
    report.textLength(`${at}.name`, name, LIMITS.tensorNameChars);
    report.check(
      DATATYPES.includes(datatype),
      `${at}.datatype is ${shown(datatype)} but must be one of ${DATATYPES.join(", ")}`,
    );
    report.check(shape[0] === -1n, `${at}.shape must start with -1, the batch dimension, such as [-1,4]`);
    report.atMost(`${at}.shape`, shape.length, LIMITS.dimensions, "dimensions");
    const bad = shape.find((size) => size !== -1n && (size < 1n || size > LIMITS.dimension));
    report.check(bad === undefined, `${at}.shape holds ${bad}, but a size is -1 (any) or 1 to ${LIMITS.dimension}`);
  }
}

function checkViews(serving: ServingSpec, report: RuleReport): void {
  const { views, transform, upstreamInputs } = serving;
  if (!report.atMost("serving.views", views.length, LIMITS.views, "views")) return;
  report.unique(
    "serving.views.name",
    views.map((view) => view.name),
  );
  for (const [index, view] of views.entries()) checkView(`serving.views[${index}]`, view, serving, report);
  report.check(
    transform === "" || PLAIN_NAME.test(transform),
    `serving.transform is ${shown(transform)} but must match ${PLAIN_NAME.source}`,
  );
  report.check(
    transform === "" || views.length > 0,
    `serving.transform is ${shown(transform)} but there are no views to transform; name views or remove it`,
  );
  report.check(
    views.length === 0 || upstreamInputs.length > 0,
    "serving.upstream_inputs is empty, but with views the model server gets something else than inputs; name its tensors",
  );
}

function checkView(at: string, view: FeatureView, serving: ServingSpec, report: RuleReport): void {
  report.check(PLAIN_NAME.test(view.name), `${at}.name is ${shown(view.name)} but must match ${PLAIN_NAME.source}`);
  report.check(
    view.width >= 1 && view.width <= LIMITS.viewWidth,
    `${at}.width is ${view.width} but must be 1 to ${LIMITS.viewWidth}`,
  );
  const entity = serving.inputs.find((input) => input.name === view.entityInput);
  if (entity === undefined) {
    report.check(false, `${at}.entity_input ${shown(view.entityInput)} is not one of the inputs; name an input`);
    return;
  }
  report.check(
    ENTITY_DATATYPES.includes(entity.datatype),
    `${at}.entity_input ${shown(entity.name)} is ${entity.datatype}, but entity ids are one of ${ENTITY_DATATYPES.join(", ")}`,
  );
  report.check(!entity.optional, `${at}.entity_input ${shown(entity.name)} is optional; an entity id has to be sent`);
  report.check(
    entity.shape.slice(1).every((size) => size === 1n),
    `${at}.entity_input ${shown(entity.name)} must hold one id per row, shape [-1] or [-1,1]`,
  );
}

function checkBatching(serving: ServingSpec, report: RuleReport): void {
  const batching = serving.batching;
  if (batching === undefined) return;
  const limit = (field: string, value: number, max: number): void => {
    report.check(value <= max, `serving.batching.${field} ${value} is above ${max}; write a smaller number`);
  };
  limit("max_batch_size", batching.maxBatchSize, LIMITS.batchRows);
  limit("max_queue_delay_us", batching.maxQueueDelayUs, LIMITS.queueDelayUs);
  limit("max_queue_size", batching.maxQueueSize, LIMITS.queueSize);
  limit("max_in_flight", batching.maxInFlight, LIMITS.inFlight);
}
