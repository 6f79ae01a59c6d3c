import {
  BodyAction,
  Buffer,
  literal,
  readBuffer,
  replaceBuffer,
  Span,
  scratch,
  TextBuilder,
} from "../proxy-wasm/index";
import { Call, Flag } from "./call";

/** Larger bodies are no error text of ours; they pass as they are. */
const BODY_BYTES_MAX: u32 = 8192;
/** Room for the keys and the reason. */
const FRAME_BYTES: u32 = 128;
const CODE_HEAD = literal('{"code":');
const MESSAGE_HEAD = literal(',"message":"');
const ERROR_KEY = literal('{"error":"');
const CODE_KEY = literal('","code":');
const REASON_KEY = literal(',"reason":"');
const END = literal('"}');
const QUOTE: u8 = 0x22;
const BACKSLASH: u8 = 0x5c;

const body = new Span();
const code = new Span();
const message = new Span();
const text = new TextBuilder();

/**
 * Rewrites the transcoder's `{"code":N,"message":"…"}` as `{"error":"…","code":N,"reason":"…"}`, which KServe's, Triton's
 * and TF-Serving's clients print. Waits for the whole body; anything of another form passes as it is. Returns a BodyAction.
 */
export function rewriteErrorBody(call: Call, size: u32, endOfStream: bool): u32 {
  if (!call.has(Flag.RewritesBody)) return BodyAction.Continue;
  if (!endOfStream && size <= BODY_BYTES_MAX) return BodyAction.StopAndBuffer;
  call.flags &= ~Flag.RewritesBody;
  const reason = call.errorReason;
  if (reason === null || size > BODY_BYTES_MAX) return BodyAction.Continue;
  if (!readBuffer(Buffer.ResponseBody, size, body) || !parse()) return BodyAction.Continue;
  const room = body.length + FRAME_BYTES;
  text.begin(scratch(room), room);
  text.span(ERROR_KEY);
  text.span(message);
  text.span(CODE_KEY);
  text.span(code);
  text.span(REASON_KEY);
  text.span(reason.word);
  text.span(END);
  replaceBuffer(Buffer.ResponseBody, size, text.pointer, text.length);
  return BodyAction.Continue;
}

/** Takes code and message, the latter still escaped, so that it can be copied as it is. False at any other form. */
function parse(): bool {
  if (!body.startsWith(CODE_HEAD)) return false;
  let at = CODE_HEAD.length;
  while (at < body.length && <u32>body.at(at) - 0x30 <= 9) at++;
  code.set(body.pointer + CODE_HEAD.length, at - CODE_HEAD.length);
  message.set(body.pointer + at, body.length - at);
  if (code.length === 0 || !message.startsWith(MESSAGE_HEAD)) return false;
  at += MESSAGE_HEAD.length;
  const start = at;
  while (at < body.length && body.at(at) !== QUOTE) at += body.at(at) === BACKSLASH ? 2 : 1;
  if (at >= body.length) return false;
  message.set(body.pointer + start, at - start);
  return true;
}
