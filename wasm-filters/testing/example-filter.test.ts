import { describe, expect, it } from "vitest";
import { readModule } from "../modules/files.js";
import type { HeaderList } from "./header-map.js";
import { createMockHost } from "./mock-host.js";

const example = readModule("example").bytes;
const REQUEST: HeaderList = [
  [":method", "GET"],
  [":path", "/"],
];

function configured(version: string) {
  const host = createMockHost(example);
  expect(host.configure(Buffer.from(version))).toBe(true);
  return host;
}

describe("the example filter of the SDK", () => {
  it("says that it is configured, and refuses a configuration that is too long", () => {
    expect(configured("2").logs).toEqual([{ level: 2, text: "example filter is configured" }]);
    expect(createMockHost(example).configure(Buffer.alloc(65, 49))).toBe(false);
  });

  it("refuses another version, with the right one in the answer, and counts it", () => {
    const host = configured("2");
    for (const headers of [REQUEST, [...REQUEST, ["x-api-version", "3"] as const]]) {
      const stream = host.openStream();
      expect(stream.requestHeaders(headers, true)).toBe("refused");
      expect(stream.reply).toMatchObject({
        httpStatus: 400,
        grpcStatus: 3,
        details: "wrong_api_version",
        headers: [["x-api-version", "2"]],
      });
      stream.close();
    }
    expect(host.metrics.get("example_refused_total")).toBe(2n);
  });

  it("lets the right version pass and tells how long the upstream took", () => {
    const stream = configured("2").openStream();
    expect(stream.requestHeaders([...REQUEST, ["X-API-Version", "2"]], true)).toBe("passed");
    stream.responseHeaders(
      [
        [":status", "200"],
        ["x-upstream-took-us", "forged"],
      ],
      true,
    );
    stream.close();
    expect(stream.client.headers).toEqual([
      [":status", "200"],
      ["x-upstream-took-us", "1"],
    ]);
  });

  it("takes every version without a configuration", () => {
    const stream = configured("").openStream();
    expect(stream.requestHeaders(REQUEST, true)).toBe("passed");
    stream.close();
  });
});
