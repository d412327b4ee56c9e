import type { IAttached } from '../state/compose';

/** A completion of a `@` or a `/`. */
export interface IOption {
  label: string;
  /** A note beside the label. */
  note: string;
  /** The text that replaces the word. */
  text: string;
  attached?: IAttached;
  /** A command of the panel that is run immediately. */
  command?: string;
}

/** The word before the cursor that is completed. */
export interface ICompletionPrefix {
  sign: '@' | '/';
  word: string;
  start: number;
}

/** Completions, and why some are missing; empty for no reason. */
export interface ICompletions {
  options: readonly IOption[];
  notice: string;
}

/** Return the word to complete at the cursor; null for none. */
export function prefixAt(text: string, cursor: number): ICompletionPrefix | null {
  const before = text.slice(0, cursor);
  const command = /^\/([\w.:-]*)$/.exec(before);
  if (command !== null) {
    return { sign: '/', word: command[1] ?? '', start: 0 };
  }
  const reference = /(?:^|\s)@([^\s@]*)$/.exec(before);
  return reference === null
    ? null
    : { sign: '@', word: reference[1] ?? '', start: cursor - (reference[1] ?? '').length - 1 };
}
