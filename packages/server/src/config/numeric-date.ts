/** Times in claims: seconds since 1970, as in JWTs. JSON allows 1e309, which is infinite. */
const year10000 = 253_402_300_800;

export function isNumericDate(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value < year10000;
}
