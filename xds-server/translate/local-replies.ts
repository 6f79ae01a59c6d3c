import {
  AccessLogFilter,
  ComparisonFilter_Op,
} from "@servemesh/proto/gen/envoy/envoy/config/accesslog/v3/accesslog.js";
import type { HeaderMatcher } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route_components.js";
import {
  LocalReplyConfig,
  ResponseMapper,
} from "@servemesh/proto/gen/envoy/envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.js";
import { H_REASON, H_REFUSED, H_RETRY_AFTER } from "@servemesh/proto/names";
import { REFUSAL_STATUS, type Reason } from "@servemesh/proto/refusal";
import { setHeader } from "./headers.js";

/** Envoy's own replies of one kind and the refusal that callers shall see instead. */
interface ReplyRule {
  /** Envoy's response flags, or its status. */
  readonly match: { readonly flags: readonly string[] } | { readonly status: number };
  readonly reason: Reason;
  /** What to tell. Fixed, because Envoy's own text is empty for some and names addresses for others. */
  readonly text: string;
  /** Seconds, where waiting helps. */
  readonly retryAfterSeconds?: number;
}

/** First match wins, so flags stand before the statuses that they share. */
function replyRules(maxRequestBytes: number): readonly ReplyRule[] {
  const unavailable = { reason: "unavailable", retryAfterSeconds: 1 } as const;
  return [
    { match: { flags: ["UH", "NC"] }, ...unavailable, text: "no replica of this model is ready" },
    {
      match: { flags: ["UO"] },
      reason: "overloaded",
      retryAfterSeconds: 1,
      text: "too many calls to this model are under way",
    },
    // The deny-all default stands in for the gate until its configuration arrives; a caller is not to blame.
    { match: { status: 403 }, ...unavailable, text: "the gateway has no gate configuration yet" },
    { match: { status: 400 }, reason: "bad_input", text: "the request is malformed, or its path has an escaped slash" },
    { match: { flags: ["NR"] }, reason: "model_not_found", text: "no route leads to this model, alias or version" },
    {
      match: { status: 404 },
      reason: "path_not_found",
      text: "no such path; predict with POST /v2/models/{model}/infer or /v1/models/{model}:predict",
    },
    { match: { status: 408 }, reason: "deadline", text: "the deadline passed before the whole request had arrived" },
    { match: { status: 504 }, reason: "deadline", text: "the deadline passed before an answer was ready" },
    {
      match: { status: 413 },
      reason: "too_large",
      text: `the body is larger than this gateway's limit of ${maxRequestBytes} bytes`,
    },
    { match: { status: 431 }, reason: "too_large", text: "the request headers are larger than this gateway's limit" },
    { match: { status: 500 }, reason: "internal", text: "the gateway failed on this request" },
    { match: { status: 503 }, ...unavailable, text: "the model cannot be reached right now" },
  ];
}

/**
 * Gives Envoy's own replies the mesh's one error form (DESIGN §3): `{error, code, reason}` on REST doors, a status with a
 * message on the gRPC door, `x-servemesh-reason` on both.
 */
export function localReplyConfig(maxRequestBytes: number): LocalReplyConfig {
  // The gate's own refusals have their body already; without this first mapper they would be written over.
  const spareTheGate = ResponseMapper.fromPartial({ filter: headerFilter(present(H_REFUSED)) });
  const mappers = replyRules(maxRequestBytes).flatMap((rule) => [grpcMapper(rule), restMapper(rule)]);
  return LocalReplyConfig.fromPartial({ mappers: [spareTheGate, ...mappers] });
}

function grpcMapper(rule: ReplyRule): ResponseMapper {
  const { grpc } = REFUSAL_STATUS[rule.reason];
  return ResponseMapper.fromPartial({
    filter: { filterSpecifier: { $case: "andFilter", value: { filters: [matchFilter(rule), ...GRPC_DOOR] } } },
    // This header wins over Envoy's own mapping of the HTTP status; the body becomes grpc-message.
    headersToAdd: [...reasonHeaders(rule), setHeader("grpc-status", String(grpc))],
    bodyFormatOverride: {
      format: { $case: "textFormatSource", value: { specifier: { $case: "inlineString", value: rule.text } } },
      contentType: "application/grpc",
    },
  });
}

function restMapper(rule: ReplyRule): ResponseMapper {
  const { grpc, http } = REFUSAL_STATUS[rule.reason];
  // 431 keeps its own status: clients know it better than 413.
  const keepsStatus = "status" in rule.match && rule.match.status === 431;
  return ResponseMapper.fromPartial({
    filter: matchFilter(rule),
    statusCode: keepsStatus ? undefined : http,
    headersToAdd: reasonHeaders(rule),
    bodyFormatOverride: {
      format: { $case: "jsonFormat", value: { error: rule.text, code: grpc, reason: rule.reason } },
    },
  });
}

function reasonHeaders(rule: ReplyRule) {
  const reason = setHeader(H_REASON, rule.reason);
  return rule.retryAfterSeconds === undefined
    ? [reason]
    : [reason, setHeader(H_RETRY_AFTER, String(rule.retryAfterSeconds))];
}

function matchFilter(rule: ReplyRule): AccessLogFilter {
  if ("flags" in rule.match) {
    return AccessLogFilter.fromPartial({
      filterSpecifier: { $case: "responseFlagFilter", value: { flags: [...rule.match.flags] } },
    });
  }
  return AccessLogFilter.fromPartial({
    filterSpecifier: {
      $case: "statusCodeFilter",
      value: {
        comparison: {
          op: ComparisonFilter_Op.EQ,
          // A runtime key is mandatory; nobody sets this one.
          value: { defaultValue: rule.match.status, runtimeKey: `servemesh.local_reply.${rule.match.status}` },
        },
      },
    },
  });
}

/** Real gRPC. The transcoder gives REST calls the same content type, but also a mark of its own. */
const GRPC_DOOR: readonly AccessLogFilter[] = [
  headerFilter({
    name: "content-type",
    headerMatchSpecifier: {
      $case: "stringMatch",
      value: { matchPattern: { $case: "prefix", value: "application/grpc" }, ignoreCase: false },
    },
  }),
  headerFilter({ ...present("x-envoy-original-method"), invertMatch: true }),
];

function present(name: string): Partial<HeaderMatcher> {
  return { name, headerMatchSpecifier: { $case: "presentMatch", value: true } };
}

function headerFilter(header: Partial<HeaderMatcher>): AccessLogFilter {
  return AccessLogFilter.fromPartial({ filterSpecifier: { $case: "headerFilter", value: { header } } });
}
