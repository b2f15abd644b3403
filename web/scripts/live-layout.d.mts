export function layoutOf(xml: string): string;
export function isStale(): boolean;
