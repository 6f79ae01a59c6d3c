import { clearOut, out } from "./arena";
import { MetricType } from "./constants";
import { proxy_define_metric, proxy_get_metric, proxy_increment_metric, proxy_record_metric } from "./host-functions";
import { Span } from "./span";

/*
 * Metrics live in the host, one per name for all VMs, and are never freed: bound the names. Define them in on_configure
 * (not in _initialize, where the host forbids it); defining a name again gives the same id. Envoy's Prometheus output has
 * no labels for them: put labels into the name and extract them with `stats_tags`.
 */

export function defineCounter(name: Span): u32 {
  return define(MetricType.Counter, name);
}

/** A gauge is also a cheap register between VMs: record sets it, `readMetric` reads it without `malloc`. */
export function defineGauge(name: Span): u32 {
  return define(MetricType.Gauge, name);
}

function define(type: u32, name: Span): u32 {
  clearOut();
  proxy_define_metric(type, name.pointer, name.length, out);
  return load<u32>(out);
}

/** Counters need a positive offset; gauges take both signs. */
@inline
export function incrementMetric(metric: u32, offset: i64): void {
  proxy_increment_metric(metric, offset);
}

@inline
export function recordMetric(metric: u32, value: u64): void {
  proxy_record_metric(metric, value);
}

/** Value of a counter or gauge (a histogram cannot be read). */
export function readMetric(metric: u32): u64 {
  clearOut();
  proxy_get_metric(metric, out);
  return load<u64>(out);
}
