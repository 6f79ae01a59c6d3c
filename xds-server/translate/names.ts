/** Every xDS resource name, once. */

export const LISTENER = "gateway";
export const TLS_LISTENER = "gateway-tls";
/** ECDS name of the gate filter; also the filter's name in the chain. */
export const GATE = "gate";
/** Cluster of the ready batchers that take server-level calls. */
export const SERVER_CLUSTER = "_server";

/** SDS resources of every group: who its Envoys are in the mesh, and the issuers of batchers' certificates. */
export const MESH_IDENTITY = "mesh/identity";
export const MESH_AUTHORITIES = "mesh/ca";

/** RTDS resource of every group; names a layer of the bootstrap. */
export const RUNTIME_LAYER = "servemesh";

/** SDS resource of a gateway record's certificate: `default` → `certificate/default`. */
export function certificateName(gateway: string): string {
  return `certificate/${gateway}`;
}

/** RDS resource of a scope: `ranker` → `routes/ranker`. */
export function routesName(scope: string): string {
  return `routes/${scope}`;
}
