/** Fills the embedded feature store of a models folder from its views: fill-feature-store.mjs FOLDER */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { openFeatureWriter } from "@servemesh/batcher";

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error("usage: fill-feature-store.mjs FOLDER");
const { views } = JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8"));

/** Copied into a buffer of its own, because a typed array must start at a multiple of its element's size. */
function typed(path, Type) {
  return new Type(Uint8Array.from(readFileSync(join(folder, "views", path))).buffer);
}

function* rowsOf({ name, width }) {
  const ids = typed(`${name}.i64`, BigInt64Array);
  const values = typed(`${name}.f32`, Float32Array);
  for (const [row, id] of ids.entries()) yield { id, values: values.subarray(row * width, (row + 1) * width) };
}

const writer = openFeatureWriter(join(folder, "features"));
for (const view of views) {
  await writer.writeView(view.name, view.width, rowsOf(view));
  console.log(`feature store: view ${view.name}, ${view.rows} rows of ${view.width}`);
}
await writer.close();
