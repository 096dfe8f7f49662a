/**
 * How much of a campaign a run of the tests does: seeds, rounds, kills. `npm test -- --long` takes the long
 * form; the short form has every kind of case and fewer repetitions.
 */
const isLong = process.env["CODEQ_TEST_LONG"] === "true";

export function campaignLength<T>(lengths: { readonly short: T; readonly long: T }): T {
  return isLong ? lengths.long : lengths.short;
}
