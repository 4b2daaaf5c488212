/** Bytes that are no zstd stream. */
export class ZstdError extends Error {}
