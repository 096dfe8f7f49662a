/** What JSON Schema 2020-12 says of a value, for the document that describes the API. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
}
