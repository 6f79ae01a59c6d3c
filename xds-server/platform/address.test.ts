import { describe, expect, it } from "vitest";
import { formatAddress, isSameMachine, parseAddress, parseLoopbackAddress } from "./address.js";

describe("parseAddress", () => {
  it.each([
    ["127.0.0.1:0", { host: "127.0.0.1", port: 0 }],
    ["[::1]:65535", { host: "::1", port: 65_535 }],
    ["localhost:80", { host: "localhost", port: 80 }],
  ])("reads %s, and writes the same text", (text, address) => {
    expect(parseAddress(text, "--x")).toEqual(address);
    expect(formatAddress(address)).toBe(text);
  });

  it.each(["", ":", "127.0.0.1", "127.0.0.1:", ":80", "::1:80", "a b:1", "127.0.0.1:65536", "127.0.0.1:-1", "[::1]80"])(
    "refuses %j with the flag and an example",
    (text) => {
      expect(() => parseAddress(text, "--ads")).toThrow(`--ads: "${text}" is not host:port; write for example`);
    },
  );
});

describe("loopback", () => {
  it.each(["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1", "[::ffff:127.0.0.1]:1"])("is %s", (text) => {
    expect(parseLoopbackAddress(text, "--x")).toEqual(parseAddress(text, "--x"));
  });

  it.each(["0.0.0.0:1", "10.0.0.1:1", "[::]:1", "127.example.org:1", "[::ffff:10.0.0.1]:1"])("is not %s", (text) => {
    expect(() => parseLoopbackAddress(text, "--ads")).toThrow("is not a loopback address");
  });

  it("is one machine, whichever of its addresses is used", () => {
    expect(isSameMachine("127.0.0.1", "::1")).toBe(true);
    expect(isSameMachine("::ffff:10.0.0.1", "10.0.0.1")).toBe(true);
    expect(isSameMachine("10.0.0.1", "10.0.0.2")).toBe(false);
    expect(isSameMachine("10.0.0.1", "127.0.0.1")).toBe(false);
  });
});
