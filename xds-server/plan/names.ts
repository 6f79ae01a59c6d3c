/** Cluster that holds the ready batchers of one version: `ranker:41` → `model/ranker/41`. */
export function clusterName(version: string): string {
  // Injective: a model name holds neither ":" nor "/", so no two versions can share a cluster.
  const at = version.lastIndexOf(":");
  return `model/${version.slice(0, at)}/${version.slice(at + 1)}`;
}

/** Model of a version reference: `ranker:41` → `ranker`. */
export function modelOf(version: string): string {
  return version.slice(0, version.lastIndexOf(":"));
}

/** Value of `x-servemesh-route` for an alias or a pinned version. */
export function routeKey(model: string, aliasOrVersion: string): string {
  return `${model}/${aliasOrVersion}`;
}
