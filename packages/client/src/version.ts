/** Of this package; a test compares it with package.json, which a program that was bundled does not have. */
export const clientVersion = "0.1.0";
