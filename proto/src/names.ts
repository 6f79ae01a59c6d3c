/**
 * Every header, reason and route word of servemesh, once. Imported by TypeScript and by AssemblyScript alike, so this
 * file has no imports and holds nothing but string and number constants.
 */

// --- Internal request headers: Envoy strips the whole prefix from clients before any filter runs ---------------------
/** Everything with this prefix is internal on requests; a client's copy never reaches a filter. */
export const INTERNAL_PREFIX: string = "x-servemesh-";
/** Internal route key `<model>/<alias or version>[/<variant>]`; its first element is the scope key. Set by the gate. */
export const H_ROUTE: string = "x-servemesh-route";
/** Verified tenant name. Replaced by the gate, never taken from a client. */
export const H_TENANT: string = "x-servemesh-tenant";
/** `interactive` or `batch`. Set by the gate from the tenant's plan. */
export const H_PRIORITY: string = "x-servemesh-priority";
/** Value of the model's sticky header, copied by the gate; the route's hash policy reads it. */
export const H_STICKY: string = "x-servemesh-sticky";
/** Cluster that gets the mirrored copy. On the primary leg it means "journal this one too". Set by the gate. */
export const H_SHADOW_CLUSTER: string = "x-servemesh-shadow-cluster";
/** Present when the gate itself refused, so that Envoy's local_reply_config leaves the gate's body alone. */
export const H_REFUSED: string = "x-servemesh-refused";
/** `ranker:41`: model and version of the cluster that a request was sent to. Set per cluster by xDS. */
export const H_VERSION: string = "x-servemesh-version";
/** `ranker:41,ranker:42`: the versions of the route's first group. Set per route by xDS. */
export const H_FIRST: string = "x-servemesh-first";
/** `primary` or `shadow`. Set per route, overwritten by the mirror policy. */
export const H_LEG: string = "x-servemesh-leg";

// --- Response headers -------------------------------------------------------------------------------------------------
/** Why a request was refused; one of the REASON_ words. */
export const H_REASON: string = "x-servemesh-reason";
/** `ranker:41` (what really answered), with `; fallback=saturated` or `; fallback=unavailable` when not the first choice. */
export const H_SERVED_BY: string = "x-servemesh-served-by";
/** A batcher's compact load report; removed by the gate. */
export const H_LOAD: string = "x-servemesh-load";
/** Standard header with one entry per stage, durations in ms. */
export const H_SERVER_TIMING: string = "server-timing";
/** Seconds after which a refused caller may try again. */
export const H_RETRY_AFTER: string = "retry-after";

// --- Headers that a client may send -----------------------------------------------------------------------------------
/** Wanted budget in whole milliseconds; clamped to the SLO; read, used and removed by the gate. */
export const H_PREDICT_TIMEOUT: string = "x-predict-timeout-ms";
/** May only lower the priority of the tenant's plan. */
export const H_PREDICT_PRIORITY: string = "x-predict-priority";
/** Default name of the key for sticky splits; a model may configure another header. */
export const H_PREDICT_STICKY: string = "x-predict-sticky-key";
export const H_API_KEY: string = "x-api-key";
export const H_AUTHORIZATION: string = "authorization";
export const H_CONTENT_TYPE: string = "content-type";
export const H_CONTENT_LENGTH: string = "content-length";
export const H_CONTENT_ENCODING: string = "content-encoding";
export const H_REQUEST_ID: string = "x-request-id";
/** KServe v2 binary tensor extension: length in bytes of the JSON head of a body. */
export const H_INFERENCE_HEADER_LENGTH: string = "inference-header-content-length";

// --- Deadlines --------------------------------------------------------------------------------------------------------
export const H_GRPC_TIMEOUT: string = "grpc-timeout";
/** Router timeout that the gate sets: budget plus a margin, so that max_stream_duration fires first. */
export const H_ENVOY_TIMEOUT: string = "x-envoy-upstream-rq-timeout-ms";
/** What Envoy tells the upstream; reduced on a retry, unlike grpc-timeout. */
export const H_ENVOY_EXPECTED_TIMEOUT: string = "x-envoy-expected-rq-timeout-ms";
export const H_ENVOY_ATTEMPT: string = "x-envoy-attempt-count";
/** Added to the budget for Envoy's own router timer, in ms. */
export const ROUTER_TIMEOUT_MARGIN_MS: i32 = 10;
/** Longest accepted value of a timeout header, in ms (ten minutes); larger ones are clamped. */
export const MAX_TIMEOUT_MS: i32 = 600000;

// --- Reasons (DESIGN §3): gRPC status with HTTP twin in refusal.ts ------------------------------------------------------
export const REASON_UNAUTHENTICATED: string = "unauthenticated";
export const REASON_FORBIDDEN: string = "forbidden";
export const REASON_MODEL_NOT_FOUND: string = "model_not_found";
export const REASON_PATH_NOT_FOUND: string = "path_not_found";
export const REASON_METHOD_NOT_ALLOWED: string = "method_not_allowed";
export const REASON_UNSUPPORTED_MEDIA_TYPE: string = "unsupported_media_type";
export const REASON_BAD_INPUT: string = "bad_input";
export const REASON_TOO_LARGE: string = "too_large";
export const REASON_QUOTA: string = "quota";
export const REASON_OVERLOADED: string = "overloaded";
export const REASON_DEADLINE: string = "deadline";
export const REASON_DRAINING: string = "draining";
export const REASON_UNAVAILABLE: string = "unavailable";
export const REASON_INTERNAL: string = "internal";

// --- Words ------------------------------------------------------------------------------------------------------------
export const LEG_PRIMARY: string = "primary";
export const LEG_SHADOW: string = "shadow";
export const PRIORITY_INTERACTIVE: string = "interactive";
export const PRIORITY_BATCH: string = "batch";
/** Alias that a bare model name means unless the model says otherwise. */
export const DEFAULT_ALIAS: string = "prod";
/** Scope and cluster of server-level calls (live, ready, metadata). */
export const SERVER_SCOPE: string = "_server";
export const ROUTE_SERVER_LIVE: string = "_server/live";
export const ROUTE_SERVER_READY: string = "_server/ready";
export const ROUTE_SERVER_META: string = "_server/meta";
/** Path prefix of the gRPC door. */
export const GRPC_SERVICE_PATH: string = "/inference.GRPCInferenceService/";

// --- Grammar limits of a model reference --------------------------------------------------------------------------------
/** `[a-z0-9][a-z0-9._-]{0,62}` */
export const MODEL_NAME_MAX: i32 = 63;
/** `[a-z][a-z0-9-]{0,31}` */
export const ALIAS_MAX: i32 = 32;
/** Digits of the largest int64, 9223372036854775807. */
export const VERSION_DIGITS_MAX: i32 = 19;
