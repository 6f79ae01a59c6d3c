import { ManagedProcess } from "../managed-process.js";
import { startWatchdog } from "../watchdog.js";

/**
 * A process for the watchdog's test: starts a watchdog, a child that ignores SIGTERM and has a child of its own in another
 * session, prints their ids when both run, and then hangs until it is killed. `watched-parent.js LOG`
 */
const [logFile] = process.argv.slice(2);
if (logFile === undefined) throw new Error("usage: watched-parent.js LOG");

const CHILD = `
  process.on("SIGTERM", () => {});
  const grandchild = require("node:child_process").spawn("sleep", ["600"], { detached: true, stdio: "ignore" });
  grandchild.once("spawn", () => console.log("grandchild " + grandchild.pid));
  setInterval(() => {}, 1000);
`;

const watchdog = startWatchdog();
const child = new ManagedProcess({
  name: "child",
  command: [process.execPath, "-e", CHILD],
  environment: watchdog.environment,
  logFile,
});
child.start();
await child.waitReady(() => Promise.resolve(child.logTail().includes("grandchild ")), 20_000);
const grandchild = /grandchild (\d+)/.exec(child.logTail())?.[1];
process.stdout.write(`${JSON.stringify([child.pid, Number(grandchild)])}\n`);
setInterval(() => {}, 1_000);
