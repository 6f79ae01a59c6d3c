import type { Metadata } from "@grpc/grpc-js";
import { isSameToken } from "../platform/token-file.js";

/** A call without the admin port's token. */
export class Unauthenticated extends Error {}

/** @throws Unauthenticated unless a call brings exactly `authorization: Bearer <token>` */
export function checkToken(metadata: Metadata, token: string): void {
  const given = metadata.get("authorization");
  const match = /^Bearer ([^\s]+)$/i.exec(given.length === 1 ? String(given[0]) : "");
  if (match?.[1] === undefined) {
    throw new Unauthenticated(
      "authorization is missing or is no bearer token; send `authorization: Bearer <token>` with the token of the control plane's token file",
    );
  }
  if (!isSameToken(match[1], token)) {
    throw new Unauthenticated(
      "authorization: the token is not this control plane's; read it from its token file again",
    );
  }
}
