/** Longest text that is kept of one refusal, in characters. */
const WORDS_MAX = 1_000;
const CUT_OFF = "the reason is cut off behind Envoy's copy of the resource; Envoy's own log has it";

/**
 * Envoy's reason without its copy of the resource. Validation errors come as `goo.gle/debugproto <the whole resource>:
 * <reason>`, cut at 4 KiB, so that of a large resource the reason is lost (seen with Envoy 1.40).
 */
export function refusalWords(message: string): string {
  const dump = message.search(/goo\.gle\/debug/);
  if (dump < 0) return message.slice(0, WORDS_MAX).trim();
  const end = message.lastIndexOf("\n: ");
  const reason = end > dump ? message.slice(end + "\n: ".length) : CUT_OFF;
  return `${message.slice(0, dump)}${reason}`.slice(0, WORDS_MAX).trim();
}
