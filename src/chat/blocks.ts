/** An answer in blocks that are rendered separately: while it streams, only the last one changes. */

export interface IBlock {
  kind: 'markdown' | 'code';
  /** Markdown, or the code between the fences. */
  text: string;
  /** The language of a code block. */
  language: string;
  /** Whether the block is complete. */
  closed: boolean;
}

const FENCE = /^(`{3,}|~{3,})\s*([^\s`{]*)[^`]*$/;

/**
 * Split a Markdown text into blocks.
 *
 * It is split at empty lines and at fences, but not inside a fence, a formula in `$$` or an indented
 * part of a list item.
 */
export function blocksOf(text: string): IBlock[] {
  const blocks: IBlock[] = [];
  let lines: string[] = [];
  let formula = false;
  let fence: { mark: string; language: string } | null = null;

  const flush = (): void => {
    const markdown = lines.join('\n').trim();
    if (markdown !== '') {
      blocks.push({ kind: 'markdown', text: lines.join('\n'), language: '', closed: true });
    }
    lines = [];
  };
  const close = (closed: boolean): void => {
    blocks.push({ kind: 'code', text: lines.join('\n'), language: fence?.language ?? '', closed });
    lines = [];
    fence = null;
  };

  for (const line of text.split('\n')) {
    if (fence !== null) {
      if (
        line.trimEnd().startsWith(fence.mark) &&
        line.trim() === line.trim()[0]?.repeat(line.trim().length)
      ) {
        close(true);
      } else {
        lines.push(line);
      }
      continue;
    }
    const opening = formula ? null : FENCE.exec(line);
    if (opening !== null) {
      flush();
      fence = { mark: opening[1] ?? '```', language: opening[2] ?? '' };
      continue;
    }
    if (!formula && lines.at(-1)?.trim() === '' && line.trim() !== '' && !/^\s/.test(line)) {
      flush();
    }
    lines.push(line);
    if ((line.match(/\$\$/g)?.length ?? 0) % 2 === 1) {
      formula = !formula;
    }
  }
  if (fence !== null) {
    close(false);
  } else {
    flush();
  }
  return blocks;
}

/** Return code in a fence that is longer than the fences in the code. */
export function fenced(text: string, language: string): string {
  const longest = Math.max(2, ...(text.match(/`{3,}/g) ?? []).map(mark => mark.length));
  const mark = '`'.repeat(longest + 1);
  return `${mark}${language}\n${text}\n${mark}`;
}
