import type { TranslationBundle } from '@jupyterlab/translation';

import { cellName, numberOf } from '../common/position';
import type { IAttached } from '../state/compose';
import type { NotebookContext } from './notebook';

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

/** Maximum number of completions. */
const OFFERED = 12;

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

/** Return the completions that need no request: commands or cells. */
export function nearOptions(
  { sign, word }: ICompletionPrefix,
  notebook: NotebookContext,
  trans: TranslationBundle
): IOption[] {
  if (sign === '/') {
    return commands(trans).filter(option => option.label.startsWith(`/${word}`));
  }
  return notebook.cells
    .map(cell => ({
      label: cellName(cell.index, trans),
      note: cell.line,
      text: `@${numberOf(cell.index)} `,
      attached: notebook.attached(cell)
    }))
    .filter(({ label, note }) => `${label} ${note}`.toLowerCase().includes(word.toLowerCase()));
}

/** Return the completions that need a request: files, or prompts in files. */
export async function fileOptions(
  { sign, word }: ICompletionPrefix,
  notebook: NotebookContext,
  trans: TranslationBundle
): Promise<IOption[]> {
  if (sign === '/') {
    const { promptOptions } = await import(/* webpackChunkName: "setup" */ './setup');
    return promptOptions(word, trans);
  }
  const slash = word.lastIndexOf('/') + 1;
  const paths = await notebook.files(word.slice(0, slash), word.slice(slash));
  return paths.map(path =>
    path.endsWith('/')
      ? { label: path, note: trans.__('Folder'), text: `@${path}` }
      : {
          label: path,
          note: trans.__('File'),
          text: `@${path} `,
          attached: { label: path, attachment: { kind: 'file' as const, path } }
        }
  );
}

/** Combine both lists up to the maximum number. */
export function together(near: readonly IOption[], files: readonly IOption[]): IOption[] {
  return [...near.slice(0, OFFERED - Math.min(files.length, 6)), ...files].slice(0, OFFERED);
}

function commands(trans: TranslationBundle): IOption[] {
  const ask = (name: string, note: string, text: string): IOption => ({
    label: `/${name}`,
    note,
    text
  });
  const run = (name: string, note: string, command: string): IOption => ({
    label: `/${name}`,
    note,
    text: '',
    command
  });
  return [
    ask('explain', trans.__('Explain the active cell'), trans.__('Explain this cell.')),
    ask('fix', trans.__('Fix the active cell'), trans.__('This cell fails. Fix it, then run it.')),
    ask('document', trans.__('Document the active cell'), trans.__('Document this cell.')),
    ask('optimise', trans.__('Optimize the active cell'), trans.__('Optimize this cell.')),
    ask('plot', trans.__('Plot something'), trans.__('Plot ')),
    run('new', trans.__('Start a new chat'), 'tk-ai:new-chat'),
    run('history', trans.__('Show chat history'), 'tk-ai:history'),
    run('connect', trans.__('Connect a model'), 'tk-ai:connect'),
    run('stop', trans.__('Stop Claude'), 'tk-ai:stop')
  ];
}
