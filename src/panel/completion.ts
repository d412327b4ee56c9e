/** Completions of a `@` or a `/` in the message box. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { useEffect, useState } from 'react';
import type { KeyboardEvent } from 'react';

import { ApiError } from '../api/client';
import type { PromptInfo } from '../api/events';
import { cellName, numberOf } from '../common/position';
import type { IAttached } from '../state/compose';
import type { NotebookContext } from './notebook';
import { cellResults, selections } from './pointing';
import { useSelector, useServices } from './services';
import { SetupApi } from './setupApi';
import { findVariables } from './variables';

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

/** Maximum number of completions. */
const OFFERED = 20;

/**
 * Find the completions of a word.
 *
 * @param onFound - Called at once with what is known, and again with what the server says.
 */
export function complete(
  { sign, word }: ICompletionPrefix,
  notebook: NotebookContext,
  trans: TranslationBundle,
  onFound: (found: ICompletions) => void
): void {
  if (sign === '/') {
    const options = commands(trans).filter(option => option.label.startsWith(`/${word}`));
    onFound({ options, notice: '' });
    void promptOptions(word, notebook, trans).then(prompts => {
      onFound({ options: [...options, ...prompts], notice: '' });
    });
    return;
  }
  const near = [
    matching(selections(notebook, trans), word),
    matching(cells(notebook, trans), word),
    matching(cellResults(notebook, trans), word)
  ];
  let variables: readonly IOption[] = [];
  let files: readonly IOption[] = [];
  let notice = '';
  const say = (): void => onFound({ options: together(...near, variables, files), notice });
  say();
  void fileOptions(word, notebook, trans).then(found => {
    files = found;
    say();
  });
  void variableOptions(word, notebook, trans).then(found => {
    variables = matching(found.options, word);
    notice = found.notice;
    say();
  });
}

/** Combine lists up to the maximum number, so that each has its share, and keep their order. */
export function together(...lists: readonly (readonly IOption[])[]): IOption[] {
  const shares = lists.map(() => 0);
  for (let left = OFFERED, before = left + 1; left > 0 && left < before;) {
    before = left;
    lists.forEach((list, place) => {
      const share = shares[place] ?? 0;
      if (left > 0 && share < list.length) {
        shares[place] = share + 1;
        left--;
      }
    });
  }
  return lists.flatMap((list, place) => list.slice(0, shares[place]));
}

function matching(options: readonly IOption[], word: string): IOption[] {
  const wanted = word.toLowerCase();
  return options.filter(({ label, note }) => `${label} ${note}`.toLowerCase().includes(wanted));
}

function cells(notebook: NotebookContext, trans: TranslationBundle): IOption[] {
  return notebook.cells.map(cell => ({
    label: cellName(cell.index, trans),
    note: cell.line,
    text: `@${numberOf(cell.index)} `,
    attached: notebook.attached(cell)
  }));
}

/** Return the files and folders in the folder of a word, and the folder itself. */
async function fileOptions(
  word: string,
  notebook: NotebookContext,
  trans: TranslationBundle
): Promise<IOption[]> {
  const slash = word.lastIndexOf('/') + 1;
  const [folder, prefix] = [word.slice(0, slash), word.slice(slash)];
  const paths = await filesIn(notebook, folder, prefix);
  const path = folder.slice(0, -1);
  const itself: IOption = {
    label: folder,
    note: trans.__('Attach the list of its files'),
    text: `@${folder} `,
    attached: { label: folder, attachment: { kind: 'folder', path } }
  };
  return [
    ...(path !== '' && prefix === '' && paths !== null ? [itself] : []),
    ...(paths ?? []).map(path =>
      path.endsWith('/')
        ? { label: path, note: trans.__('Folder'), text: `@${path}` }
        : {
            label: path,
            note: trans.__('File'),
            text: `@${path} `,
            attached: { label: path, attachment: { kind: 'file' as const, path } }
          }
    )
  ];
}

/** Return the paths in a folder whose names have this prefix; null if it is not a folder. */
async function filesIn(
  { contents }: NotebookContext,
  folder: string,
  prefix: string
): Promise<string[] | null> {
  try {
    const found = await contents.get(folder, { content: true });
    if (found.type !== 'directory') {
      return null;
    }
    const items = (found.content ?? []) as { path: string; name: string; type: string }[];
    return items
      .filter(item => item.name.toLowerCase().startsWith(prefix.toLowerCase()))
      .map(item => (item.type === 'directory' ? `${item.path}/` : item.path));
  } catch (error) {
    if (error instanceof Error && 'response' in error) {
      return null;
    }
    throw error;
  }
}

/** Return the variables of the notebook's kernel, or why there are none. */
async function variableOptions(
  word: string,
  { contents, seen }: NotebookContext,
  trans: TranslationBundle
): Promise<ICompletions> {
  if (seen === null) {
    return { options: [], notice: '' };
  }
  const { notebook } = seen;
  try {
    const { variables } = await findVariables(contents.serverSettings, notebook, word);
    const options = variables.map(({ name, type, shape, value }) => ({
      label: name,
      note: [type, shape, value].filter(each => each != null).join(' '),
      text: `@${name} `,
      attached: { label: name, notebook, attachment: { kind: 'variable' as const, name } }
    }));
    return { options, notice: '' };
  } catch (error) {
    if (!(error instanceof ApiError)) {
      throw error;
    }
    const busy = error.problem.code === 'kernel_busy';
    const notice = busy ? trans.__('The kernel is busy. Its variables are not listed.') : '';
    return { options: [], notice };
  }
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

/** Return the prompts that begin with a word; none if the server does not answer. */
async function promptOptions(
  word: string,
  { contents }: NotebookContext,
  trans: TranslationBundle
): Promise<IOption[]> {
  try {
    const prompts = await new SetupApi(contents.serverSettings).prompts();
    return prompts
      .filter(({ name }) => name.toLowerCase().startsWith(word.toLowerCase()))
      .map(prompt => ({
        label: `/${prompt.name}`,
        note: noteOf(prompt, trans),
        text: `/${prompt.name} `
      }));
  } catch {
    return [];
  }
}

/** Return the arguments, the description and the origin of a prompt. */
function noteOf({ hint, description, origin }: PromptInfo, trans: TranslationBundle): string {
  const from = origin === 'user' ? trans.__('Your prompt') : trans.__('Project’s prompt');
  return [hint, description, from].filter(text => text !== '').join(' · ');
}

export interface ICompleter extends ICompletions {
  active: number;
  partial: ICompletionPrefix | null;
  /** Handle a key. Return whether it was handled. */
  onKey(event: KeyboardEvent): boolean;
}

/** What was found so far. */
interface IFound extends ICompletions {
  /** Identifies the word. */
  key: string;
  /** Identifies the search, which finds more and more. */
  search: object | null;
  chosen: IOption | null;
}

const NOTHING: IFound = { key: '', search: null, options: [], notice: '', chosen: null };

/** Return all that was found. The chosen completion stays the chosen one, wherever it is then. */
export function withMore(
  before: IFound,
  { options, ...found }: Pick<IFound, 'key' | 'search' | 'options' | 'notice'>
): IFound {
  const chosen = before.key === found.key ? before.chosen : null;
  const kind = (option: IOption): unknown => option.attached?.attachment.kind;
  const same = options.find(
    option => chosen?.label === option.label && kind(chosen) === kind(option)
  );
  const stays = same ?? (before.search === found.search ? chosen : null);
  return {
    ...found,
    options: same !== undefined || stays === null ? options : [...options, stays],
    chosen: stays ?? options[0] ?? null
  };
}

/** Provide completions for a `@` or `/` before the cursor. */
export function useCompleter(
  text: string,
  cursor: number,
  choose: (option: IOption, partial: ICompletionPrefix) => void
): ICompleter {
  const { notebook, trans } = useServices();
  const seen = useSelector(state => state.seen);
  const [found, setFound] = useState(NOTHING);
  const [dismissed, setDismissed] = useState('');
  const partial = prefixAt(text, cursor);
  const key = partial === null ? '' : `${partial.start} ${partial.sign}${partial.word}`;
  useEffect(() => {
    let wanted = true;
    const search = {};
    const completed = prefixAt(text, cursor);
    if (completed !== null) {
      complete(completed, notebook, trans, completions => {
        if (wanted) {
          setFound(before => withMore(before, { key, search, ...completions }));
        }
      });
    }
    return () => {
      wanted = false;
    };
    // The key depends on text and cursor, and the cells on `seen`.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [key, notebook, seen, trans]);
  const { options, notice, chosen } =
    partial === null || key === dismissed || found.key !== key ? NOTHING : found;
  const active = Math.max(0, chosen === null ? 0 : options.indexOf(chosen));
  const setActive = (place: number): void =>
    setFound(now => ({ ...now, chosen: options[place] ?? null }));

  const onKey = (event: KeyboardEvent): boolean => {
    const option = options[active];
    if (option === undefined || partial === null) {
      return false;
    }
    switch (event.key) {
      case 'ArrowDown':
        setActive((active + 1) % options.length);
        return true;
      case 'ArrowUp':
        setActive((active + options.length - 1) % options.length);
        return true;
      case 'Enter':
      case 'Tab':
        choose(option, partial);
        return true;
      case 'Escape':
        setDismissed(key);
        return true;
      default:
        return false;
    }
  };
  return { options, notice, active, partial, onKey };
}
