const MADE = /^(\w+)\s*=\s*(?:pd|pandas|pl|polars)\.(?:read_\w+|scan_\w+|DataFrame)\b/gm;

/** Return the last variable to which cells assign a pandas or polars table; null for none. */
export function tableOf(sources: readonly string[]): string | null {
  return sources.flatMap(source => [...source.matchAll(MADE)]).at(-1)?.[1] ?? null;
}
