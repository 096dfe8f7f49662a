/** JSON Schema 2020-12 types, for the OpenAPI document. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
}
