import { AccessLog } from "@servemesh/proto/gen/envoy/envoy/config/accesslog/v3/accesslog.js";
import { FileAccessLog } from "@servemesh/proto/gen/envoy/envoy/extensions/access_loggers/file/v3/file.js";
import { H_REASON, H_ROUTE, H_SERVED_BY, H_TENANT } from "@servemesh/proto/names";
import { packAny } from "./any.js";

/** One JSON line per request. No credentials, no bodies, no query. */
const FIELDS = {
  time: "%START_TIME%",
  request_id: "%REQ(X-REQUEST-ID)%",
  method: "%REQ(X-ENVOY-ORIGINAL-METHOD?:METHOD)%",
  path: "%PATH(NQ:ORIG)%",
  tenant: `%REQ(${H_TENANT})%`,
  route: `%REQ(${H_ROUTE})%`,
  served_by: `%RESP(${H_SERVED_BY})%`,
  reason: `%RESP(${H_REASON})%`,
  status: "%RESPONSE_CODE%",
  grpc_status: "%GRPC_STATUS_NUMBER%",
  flags: "%RESPONSE_FLAGS%",
  details: "%RESPONSE_CODE_DETAILS%",
  cluster: "%UPSTREAM_CLUSTER%",
  upstream: "%UPSTREAM_HOST%",
  attempts: "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
  bytes_in: "%BYTES_RECEIVED%",
  bytes_out: "%BYTES_SENT%",
  duration_ms: "%DURATION%",
} as const;

/** @param path file on the gateway's machine */
export function fileAccessLog(path: string): AccessLog {
  const log = FileAccessLog.fromPartial({
    path,
    accessLogFormat: {
      $case: "logFormat",
      value: { format: { $case: "jsonFormat", value: { ...FIELDS } } },
    },
  });
  return AccessLog.fromPartial({
    name: "envoy.access_loggers.file",
    configType: { $case: "typedConfig", value: packAny(FileAccessLog, log) },
  });
}
