import { proxy_log } from "./host-functions";
import { LogLevel } from "./constants";

const TEXT_BYTES: usize = 512;
const text: usize = memory.data(512);

/**
 * Takes the place of AssemblyScript's abort (compile with `--use abort=pwAbort`), whose import `env.abort` the host does
 * not have. Logs `message at file:line` and traps: WASI's proc_exit would return. A trap ends the VM and every stream in it,
 * so filters should never get here.
 */
// @ts-ignore: decorator of AssemblyScript
@global
export function pwAbort(message: string | null, file: string | null, line: u32, column: u32): void {
  let end = text;
  end = append(end, message);
  end = append(end, " at ");
  end = append(end, file);
  end = append(end, ":");
  end = appendDecimal(end, line);
  proxy_log(LogLevel.Critical, text, <u32>(end - text));
  unreachable();
}

/** Without allocation, since memory may be what has run out; characters beyond ASCII become `?`. */
function append(end: usize, part: string | null): usize {
  if (part === null) return end;
  const length = part.length;
  for (let index = 0; index < length && end < text + TEXT_BYTES - 16; index++) {
    const unit = load<u16>(changetype<usize>(part) + (<usize>index << 1));
    store<u8>(end++, unit < 128 ? <u8>unit : 63);
  }
  return end;
}

function appendDecimal(end: usize, value: u32): usize {
  let divisor: u32 = 1;
  while (value / divisor >= 10) divisor *= 10;
  for (; divisor > 0; divisor /= 10) store<u8>(end++, <u8>(48 + ((value / divisor) % 10)));
  return end;
}
