#!/usr/bin/env node
import { runMeshctl } from "../dist/cli/main.js";

process.exitCode = await runMeshctl(process.argv.slice(2));
