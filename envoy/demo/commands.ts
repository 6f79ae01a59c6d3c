import { relative } from "node:path";
import type { LocalMesh } from "../run/local-mesh.js";
import { repositoryRoot } from "../run/paths.js";
import { GRPC_CALL_SCRIPT } from "./stories/grpc-call.js";

/** Commands for people to copy, to be run in the root of the repository. */
export function commandsToTry(mesh: LocalMesh): string {
  const path = (file: string): string => relative(repositoryRoot, file);
  const body = `'{"instances":[{"user_id":196,"item_id":242}]}'`;
  const isDefault = mesh.adminAddress === "127.0.0.1:18001" && path(mesh.tokenFile) === "var/demo/token";
  const flags = isDefault ? "" : ` --address ${mesh.adminAddress} --token-file ${path(mesh.tokenFile)}`;
  const meshctl = `npx meshctl${flags}`;
  return [
    "Try it (in the root of the repository):",
    "",
    `  export KEY=${mesh.apiKey}`,
    `  curl -i -H "authorization: Bearer $KEY" -H 'content-type: application/json' -d ${body} ${mesh.httpUrl}/v1/models/ranker:predict`,
    `  curl -i --cacert ${path(mesh.certificates.caCertificate)} -H "x-api-key: $KEY" -H 'content-type: application/json' -d ${body} ${mesh.httpsUrl}/v1/models/ranker@prod:predict`,
    `  .venv/bin/python ${GRPC_CALL_SCRIPT} --url ${mesh.grpcAddress} --key $KEY --user 196 --item 242`,
    `  ${meshctl} status`,
    `  ${meshctl} model show ranker`,
    `  ${meshctl} alias set ranker@prod 41=95,42=5`,
    `  tail -f ${path(mesh.folder)}/logs/access.ndjson`,
    `  curl -s '${mesh.envoyAdminUrl}/stats?filter=wasm&usedonly'`,
    `  curl -s ${mesh.replicas[0]?.batcherHealthUrl}/metrics | grep servemesh_batcher_stage`,
  ].join("\n");
}
