/** Version of this control plane, told to operators; the same as in package.json. */
export const SOFTWARE_VERSION = "0.1.0";
