const MADE = /^(\w+)\s*=\s*(?:pd|pandas|pl|polars)\.(?:read_\w+|scan_\w+|DataFrame)\b/gm;

/** The last variable to which cells assign a table of pandas or polars; null where none does. */
export function tableOf(sources: readonly string[]): string | null {
  return sources.flatMap(source => [...source.matchAll(MADE)]).at(-1)?.[1] ?? null;
}
