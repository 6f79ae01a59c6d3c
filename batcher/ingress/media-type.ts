import { PredictError } from "../request.js";
import { quote } from "./bad-input.js";

/**
 * Media types in which JSON arrives in practice: TF-Serving's documentation shows curl without a header (form type),
 * tritonclient sends octet-stream or nothing. What the bytes really are, the parser finds out.
 */
const ACCEPTED: ReadonlySet<string> = new Set([
  "",
  "application/json",
  "application/octet-stream",
  "application/x-www-form-urlencoded",
  "text/json",
  "text/plain",
]);

const UTF8: ReadonlySet<string> = new Set(["utf-8", "utf8", "us-ascii"]);

/**
 * Checks the content type of a REST body (RFC 9110 §8.3).
 * @throws PredictError `unsupported_media_type` for another type or another character set than UTF-8
 */
export function checkMediaType(contentType: string): void {
  const [type = "", ...parameters] = contentType.split(";").map((part) => part.trim().toLowerCase());
  if (!ACCEPTED.has(type)) {
    throw new PredictError(
      "unsupported_media_type",
      `content-type ${quote(contentType)} is not supported; send application/json (or application/octet-stream with inference-header-content-length)`,
    );
  }
  for (const parameter of parameters) {
    const [key = "", value = ""] = parameter.split("=");
    const charset = value.replace(/^"|"$/g, "");
    if (key.trim() === "charset" && !UTF8.has(charset.trim())) {
      throw new PredictError("unsupported_media_type", `charset ${quote(charset)} is not supported; send UTF-8`);
    }
  }
}
