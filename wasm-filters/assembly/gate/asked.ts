import { Span } from "../proxy-wasm/index";

/**
 * The texts by which a request names its model: from the path, or from the prefix of a gRPC body. Valid until the callback
 * ends. `version` and `label` are absent (not present) when the door gives none.
 */
@unmanaged
export class Asked {
  model: Span = new Span();
  version: Span = new Span();
  label: Span = new Span();

  clear(): void {
    this.model.clear();
    this.version.clear();
    this.label.clear();
  }
}
