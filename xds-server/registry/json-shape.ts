/**
 * Shapes of proto3 JSON, checked before ts-proto's lenient `fromJSON`, which turns a wrong type into text or leaves it
 * out. Field names are those of the .proto files in lower camel case, as written by `toJSON`; the original names are
 * read as well (proto3 JSON mapping).
 */
export type Shape =
  | { readonly kind: "string" | "bool" | "int64" | "uint64" | "uint32" | "double" | "bytes" | "timestamp" }
  | { readonly kind: "enum"; readonly names: readonly string[] }
  | { readonly kind: "list"; readonly of: Shape }
  | { readonly kind: "map"; readonly of: Shape }
  | MessageShape;

export interface MessageShape {
  readonly kind: "message";
  /** By name in lower camel case. */
  readonly fields: Readonly<Record<string, Shape>>;
}

export interface ShapeReport {
  /** Each names a field in the words of the .proto file. */
  readonly errors: readonly string[];
  /** Fields that this program does not know, and leaves alone. */
  readonly unknown: readonly string[];
}

const UINT32_MAX = 2 ** 32 - 1;
const DECIMAL = /^-?(0|[1-9][0-9]{0,19})$/;
const BASE64 = /^[A-Za-z0-9+/_-]*={0,2}$/;
const RFC3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})$/;
/** Problems that are told of one record; a record full of garbage has thousands. */
const ERRORS_MAX = 8;

/** Compares parsed JSON with a message's shape. Never throws. */
export function checkShape(json: unknown, shape: MessageShape): ShapeReport {
  const errors: string[] = [];
  const unknown: string[] = [];
  visit(json, shape, "", { errors, unknown });
  return { errors: errors.slice(0, ERRORS_MAX), unknown: unknown.slice(0, ERRORS_MAX) };
}

interface Findings {
  readonly errors: string[];
  readonly unknown: string[];
}

function visit(value: unknown, shape: Shape, path: string, found: Findings): void {
  // null is how proto3 JSON writes an absent field.
  if (value === null && path !== "") return;
  switch (shape.kind) {
    case "message":
      visitMessage(value, shape, path, found);
      return;
    case "map":
      if (!isObject(value)) wrong(path, value, "an object", found);
      else for (const [key, item] of Object.entries(value)) visit(item, shape.of, `${path}[${quote(key)}]`, found);
      return;
    case "list":
      if (!Array.isArray(value)) wrong(path, value, "a list", found);
      else for (const [index, item] of value.entries()) visitItem(item, shape.of, `${path}[${index}]`, found);
      return;
    default: {
      const expected = scalarProblem(value, shape);
      if (expected !== undefined) wrong(path, value, expected, found);
    }
  }
}

function visitItem(item: unknown, shape: Shape, path: string, found: Findings): void {
  if (item === null) wrong(path, item, "an element", found);
  else visit(item, shape, path, found);
}

function visitMessage(value: unknown, shape: MessageShape, path: string, found: Findings): void {
  if (!isObject(value)) {
    wrong(path, value, "an object", found);
    return;
  }
  for (const [name, item] of Object.entries(value)) {
    const known = shape.fields[toLowerCamel(name)];
    const field = path === "" ? toSnake(name) : `${path}.${toSnake(name)}`;
    if (known === undefined) found.unknown.push(field);
    else visit(item, known, field, found);
  }
}

/** What the value should have been; undefined when it is. */
function scalarProblem(
  value: unknown,
  shape: Exclude<Shape, { kind: "message" | "list" | "map" }>,
): string | undefined {
  switch (shape.kind) {
    case "string":
      return typeof value === "string" ? undefined : "a text";
    case "bool":
      return typeof value === "boolean" ? undefined : "true or false";
    case "double":
      return isFiniteNumber(value) ? undefined : "a finite number";
    case "uint32":
      return isInteger(value, 0n, BigInt(UINT32_MAX)) ? undefined : `a whole number from 0 to ${UINT32_MAX}`;
    case "int64":
      return isInteger(value, -(2n ** 63n), 2n ** 63n - 1n) ? undefined : "a 64-bit whole number";
    case "uint64":
      return isInteger(value, 0n, 2n ** 64n - 1n) ? undefined : "a 64-bit whole number of at least 0";
    case "bytes":
      return typeof value === "string" && BASE64.test(value) ? undefined : "base64 text";
    case "timestamp":
      return isTimestamp(value) ? undefined : "a time such as 2026-01-31T12:00:00Z";
    case "enum":
      return typeof value === "string" && shape.names.includes(value) ? undefined : `one of ${shape.names.join(", ")}`;
  }
}

function isFiniteNumber(value: unknown): boolean {
  return typeof value === "number" && Number.isFinite(value);
}

/** A JSON number, or the decimal text that proto3 JSON uses for 64 bits. */
function isInteger(value: unknown, min: bigint, max: bigint): boolean {
  const isNumber = typeof value === "number" && Number.isSafeInteger(value);
  if (!isNumber && !(typeof value === "string" && DECIMAL.test(value))) return false;
  const integer = BigInt(value as number | string);
  return integer >= min && integer <= max;
}

function isTimestamp(value: unknown): boolean {
  return typeof value === "string" && RFC3339.test(value) && !Number.isNaN(Date.parse(value));
}

function wrong(path: string, value: unknown, expected: string, found: Findings): void {
  found.errors.push(`${path === "" ? "the record" : path} is ${describe(value)} but must be ${expected}`);
}

function describe(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "an object";
  return quote(value);
}

/** JSON of a value, cut so that a finding stays readable. */
function quote(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function toLowerCamel(name: string): string {
  return name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** The name in the .proto file: people read and write that one. */
function toSnake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
