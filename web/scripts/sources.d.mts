export function fnv(hash: bigint, bytes: Iterable<number>): bigint;
export function sourcesHash(): string;
