import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import asc from "assemblyscript/asc";

const ASSEMBLY = fileURLToPath(new URL("assembly/", import.meta.url));

/** Small and fast, unlike build.mjs. */
const OPTIONS = ["--runtime", "stub", "--use", "abort=", "-O1", "--debug"];

/** A file of assembly/, or null: asc asks for names that may not exist. */
function readSource(name) {
  try {
    return readFileSync(`${ASSEMBLY}${name}`, "utf8");
  } catch {
    return null;
  }
}

/**
 * Compiles AssemblyScript text, for tests that need a module which nobody would keep. It may import what lies in assembly/,
 * as `./proxy-wasm/index`.
 */
export async function compileFilter(source, options = ["--exportStart", "_initialize"]) {
  let binary;
  let errors = "";
  const { error } = await asc.main(["filter.ts", "--outFile", "filter.wasm", ...OPTIONS, ...options], {
    readFile: (name) => (name === "filter.ts" ? source : readSource(name)),
    writeFile: (name, contents) => {
      if (name === "filter.wasm") binary = contents;
    },
    listFiles: () => [],
    stderr: {
      write: (text) => {
        errors += text;
      },
    },
  });
  if (error || binary === undefined) throw new Error(`the test's filter does not compile:\n${errors}`);
  return binary;
}
