import { RouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route.js";
import {
  HeaderMatcher,
  RetryPolicy,
  Route,
  RouteAction,
  type RouteAction_RequestMirrorPolicy,
} from "@servemesh/proto/gen/envoy/envoy/config/route/v3/route_components.js";
import { ScopedRouteConfiguration } from "@servemesh/proto/gen/envoy/envoy/config/route/v3/scoped_route.js";
import { PreviousHostsPredicate } from "@servemesh/proto/gen/envoy/envoy/extensions/retry/host/previous_hosts/v3/previous_hosts.js";
import { PriorityGroupClusterSpecifier } from "@servemesh/proto/gen/envoy/envoy/extensions/router/cluster_specifiers/priority_group/v3/priority_group.js";
import {
  H_API_KEY,
  H_AUTHORIZATION,
  H_ENVOY_TIMEOUT,
  H_FIRST,
  H_GRPC_TIMEOUT,
  H_LEG,
  H_REASON,
  H_ROUTE,
  H_SHADOW_CLUSTER,
  H_STICKY,
  LEG_PRIMARY,
  LEG_SHADOW,
  REASON_OVERLOADED,
  ROUTE_SERVER_LIVE,
  ROUTE_SERVER_META,
  ROUTE_SERVER_READY,
  ROUTER_TIMEOUT_MARGIN_MS,
  SERVER_SCOPE,
} from "@servemesh/proto/names";
import { DEFAULT_MAX_REQUEST_BYTES } from "../plan/gateway-plan.js";
import type { MeshPlan, ModelPlan, RoutePlan, ShadowPlan } from "../plan/mesh-plan.js";
import { routesOf } from "../plan/plan.js";
import { packAny } from "./any.js";
import { removeMutation, setHeader, setMutation } from "./headers.js";
import { bufferLimitOf } from "./limits.js";
import { routesName, SERVER_CLUSTER } from "./names.js";
import { haveSameNames, translateEach } from "./reuse.js";
import { duration } from "./sources.js";

/** Limit of a server-level call in ms; the batcher answers these from memory. */
const SERVER_DEADLINE_MS = 5_000;
/** One retry, at once: the budget of a predict call is milliseconds. */
const RETRY_BACK_OFF_MS = { base: 1, max: 2 };

/** The part of a translation that routes and scopes are made from and taken over from; the server's entry is always the last. */
interface PreviousRoutes {
  readonly plan: MeshPlan;
  readonly resources: {
    readonly routes: readonly RouteConfiguration[];
    readonly scopes: readonly ScopedRouteConfiguration[];
  };
}

/** One route table per model, so that a weight change re-sends one small resource; and one for server-level calls. */
export function translateRoutes(plan: MeshPlan, previous: PreviousRoutes | undefined): readonly RouteConfiguration[] {
  const bufferLimit = bufferLimitFor(plan);
  // The limit is in every table.
  const before = previous !== undefined && bufferLimitFor(previous.plan) === bufferLimit ? previous : undefined;
  const isSameServer = before !== undefined && (before.plan.server.length === 0) === (plan.server.length === 0);
  if (isSameServer && before.plan.models === plan.models) return before.resources.routes;
  const server = (isSameServer ? before.resources.routes.at(-1) : undefined) ?? serverRoutes(plan, bufferLimit);
  return translateEach(
    plan.models,
    (model) => modelRoutes(model, bufferLimit),
    server,
    before && { items: before.plan.models, results: before.resources.routes },
  );
}

/** Scopes are picked by the first element of `x-servemesh-route`. */
export function translateScopes(
  plan: MeshPlan,
  previous: PreviousRoutes | undefined,
): readonly ScopedRouteConfiguration[] {
  if (previous !== undefined && haveSameNames(previous.plan.models, plan.models, ({ model }) => model))
    return previous.resources.scopes;
  const known = new Map(previous?.resources.scopes.map((scope) => [scope.name, scope]));
  return [...plan.models.map((model) => model.model), SERVER_SCOPE].map(
    (scope) =>
      known.get(scope) ??
      ScopedRouteConfiguration.fromPartial({
        name: scope,
        routeConfigurationName: routesName(scope),
        key: { fragments: [{ type: { $case: "stringKey", value: scope } }] },
      }),
  );
}

function bufferLimitFor(plan: MeshPlan): number {
  // All groups share the tables; each group's listeners have its own, smaller limit.
  const limits = plan.gateways.map(({ maxRequestBytes }) => maxRequestBytes);
  return bufferLimitOf(limits.length === 0 ? DEFAULT_MAX_REQUEST_BYTES : Math.max(...limits));
}

function modelRoutes(model: ModelPlan, bufferLimit: number): RouteConfiguration {
  return routeTable(model.model, routesOf(model).map(translateRoute), bufferLimit);
}

function serverRoutes(plan: MeshPlan, bufferLimit: number): RouteConfiguration {
  const routes = [ROUTE_SERVER_LIVE, ROUTE_SERVER_READY, ROUTE_SERVER_META].map((key) =>
    plan.server.length === 0
      ? unavailableRoute(key)
      : Route.fromPartial({
          name: key,
          match: matchOf(key),
          requestHeadersToRemove: [H_AUTHORIZATION, H_API_KEY],
          action: {
            $case: "route",
            value: {
              clusterSpecifier: { $case: "cluster", value: SERVER_CLUSTER },
              ...deadlineFields(SERVER_DEADLINE_MS),
              retryPolicy: retryPolicy(false),
            },
          },
        }),
  );
  return routeTable(SERVER_SCOPE, routes, bufferLimit);
}

function routeTable(scope: string, routes: Route[], bufferLimit: number): RouteConfiguration {
  return RouteConfiguration.fromPartial({
    name: routesName(scope),
    virtualHosts: [
      {
        name: scope,
        domains: ["*"],
        routes,
        // Tells the batcher whether it is the first choice or a fallback.
        includeRequestAttemptCount: true,
        // A larger body than Envoy buffers is not retried, so the buffer stands above the body limit.
        requestBodyBufferLimit: bufferLimit,
      },
    ],
  });
}

function translateRoute(route: RoutePlan): Route {
  if (route.groups.length === 0) return unavailableRoute(route.key);
  return Route.fromPartial({
    name: route.key,
    match: matchOf(route.key),
    requestHeadersToAdd: [setHeader(H_FIRST, route.first.join()), setHeader(H_LEG, LEG_PRIMARY)],
    // Credentials end at the gateway. The mirror drops them once more, whatever the order of Envoy's steps.
    requestHeadersToRemove: [H_AUTHORIZATION, H_API_KEY],
    action: { $case: "route", value: routeAction(route) },
  });
}

function routeAction(route: RoutePlan): RouteAction {
  return RouteAction.fromPartial({
    clusterSpecifier: { $case: "inlineClusterSpecifierPlugin", value: { extension: priorityGroups(route) } },
    // Without the header Envoy draws at random per request.
    hashPolicy: [{ policySpecifier: { $case: "header", value: { headerName: H_STICKY } }, terminal: true }],
    ...deadlineFields(route.deadlineMs),
    retryPolicy: retryPolicy(route.groups.length > 1),
    requestMirrorPolicies: route.shadow === undefined ? [] : [mirrorPolicy(route.shadow)],
  });
}

/** The split is the first group, each fallback one more. */
function priorityGroups(route: RoutePlan) {
  return {
    name: "envoy.router.cluster_specifier_plugin.priority_group",
    typedConfig: packAny(
      PriorityGroupClusterSpecifier,
      PriorityGroupClusterSpecifier.fromPartial({
        priorityGroups: route.groups.map((group) => ({
          name: group.name,
          clusters: group.clusters.map(({ cluster, weight }) => ({ clusterName: cluster, weight })),
        })),
        randomValueSpecifier: { $case: "useHashPolicy", value: true },
      }),
    ),
  };
}

/**
 * The gate writes `grpc-timeout` for every call and Envoy enforces it from header arrival, uploads included. The route's
 * own limits only count for a call that somehow lacks it.
 */
function deadlineFields(deadlineMs: number) {
  return {
    timeout: duration(deadlineMs + ROUTER_TIMEOUT_MARGIN_MS),
    maxStreamDuration: { maxStreamDuration: duration(deadlineMs), grpcTimeoutHeaderMax: duration(0) },
  };
}

/** Retried once: a dead replica, and with a fallback what a batcher refused as overloaded. Never on a status alone. */
function retryPolicy(hasFallback: boolean): RetryPolicy {
  return RetryPolicy.fromPartial({
    retryOn: `connect-failure,reset-before-request${hasFallback ? ",retriable-headers" : ""}`,
    numRetries: 1,
    retryBackOff: {
      baseInterval: duration(RETRY_BACK_OFF_MS.base),
      maxInterval: duration(RETRY_BACK_OFF_MS.max),
    },
    ...(hasFallback
      ? { retriableHeaders: [exactHeader(H_REASON, REASON_OVERLOADED)], refreshClusterOnRetry: true }
      : { retryHostPredicate: [otherHost()], hostSelectionRetryMaxAttempts: 3 }),
  });
}

function otherHost() {
  return {
    name: "envoy.retry_host_predicates.previous_hosts",
    configType: {
      $case: "typedConfig" as const,
      value: packAny(PreviousHostsPredicate, PreviousHostsPredicate.fromPartial({})),
    },
  };
}

/** Envoy copies the call to the cluster that the gate named; no such header, no copy. */
function mirrorPolicy(shadow: ShadowPlan): Partial<RouteAction_RequestMirrorPolicy> {
  return {
    clusterHeader: H_SHADOW_CLUSTER,
    disableShadowHostSuffixAppend: true,
    requestHeadersMutations: [
      removeMutation(H_AUTHORIZATION),
      removeMutation(H_API_KEY),
      setMutation(H_LEG, LEG_SHADOW),
      // Both are needed for a limit of its own, and the batcher reads the first.
      setMutation(H_GRPC_TIMEOUT, `${shadow.timeoutMs}m`),
      setMutation(H_ENVOY_TIMEOUT, String(shadow.timeoutMs + ROUTER_TIMEOUT_MARGIN_MS)),
    ],
  };
}

/** The route stays, so that callers read "unavailable" and not "not found"; local_reply_config gives the body. */
function unavailableRoute(key: string): Route {
  return Route.fromPartial({
    name: key,
    match: matchOf(key),
    action: { $case: "directResponse", value: { status: 503 } },
  });
}

function matchOf(key: string) {
  return { pathSpecifier: { $case: "prefix" as const, value: "/" }, headers: [exactHeader(H_ROUTE, key)] };
}

function exactHeader(name: string, value: string): HeaderMatcher {
  return HeaderMatcher.fromPartial({
    name,
    headerMatchSpecifier: { $case: "stringMatch", value: { matchPattern: { $case: "exact", value } } },
  });
}
