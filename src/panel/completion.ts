/** Completions of a `@` or a `/` in the message box. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { useEffect, useState } from 'react';
import type { KeyboardEvent } from 'react';

import { ApiError, type ChatApi } from '../api/client';
import type { AgentSlashCommand, PromptInfo } from '../api/events';
import { cellName, numberOf } from '../common/position';
import type { NotebookContext } from './notebook';
import { cellResults, type IOption, selections } from './pointing';
import { useSelector, useServices } from './services';

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

/** Maximum number of completions of each kind. */
const OFFERED = 20;

/**
 * Find the completions of a word.
 *
 * @param own - Commands of the agent.
 * @param onFound - Called at once with what is known, and again with what the server says.
 */
export function complete(
  { sign, word }: ICompletionPrefix,
  notebook: NotebookContext,
  api: ChatApi,
  trans: TranslationBundle,
  own: readonly AgentSlashCommand[],
  onFound: (found: ICompletions) => void
): void {
  if (sign === '/') {
    const named = own.map(({ name, description }) => ({
      label: `/${name}`,
      note: description,
      text: `/${name} `
    }));
    const options = [...commands(trans), ...named].filter(({ label }) =>
      label.startsWith(`/${word}`)
    );
    onFound({ options, notice: '' });
    void promptOptions(word, api, trans).then(prompts => {
      onFound({ options: [...options, ...prompts], notice: '' });
    });
    return;
  }
  const kinds = [
    matching(selections(notebook, trans), word),
    matching(cells(notebook, trans), word),
    matching(cellResults(notebook, trans), word)
  ];
  let notice = '';
  const say = (): void =>
    onFound({ options: kinds.flatMap(options => options.slice(0, OFFERED)), notice });
  say();
  void fileOptions(word, notebook, trans).then(files => {
    kinds[4] = files;
    say();
  });
  void variableOptions(word, notebook, api, trans).then(found => {
    kinds[3] = matching(found.options, word);
    notice = found.notice;
    say();
  });
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

/** Return the paths in a folder that have this prefix in their names; null if it is not a folder. */
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
  { seen }: NotebookContext,
  api: ChatApi,
  trans: TranslationBundle
): Promise<ICompletions> {
  if (seen === null) {
    return { options: [], notice: '' };
  }
  const { notebook } = seen;
  try {
    const { variables } = await api.variables(notebook, word);
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
  return [
    ask('explain', trans.__('Explain the active cell'), trans.__('Explain this cell.')),
    ask('fix', trans.__('Fix the active cell'), trans.__('This cell fails. Fix it, then run it.')),
    ask('document', trans.__('Document the active cell'), trans.__('Document this cell.')),
    ask('optimize', trans.__('Optimize the active cell'), trans.__('Optimize this cell.')),
    ask('plot', trans.__('Plot something'), trans.__('Plot '))
  ];
}

/** Return the prompts that begin with a word; none if the server does not answer. */
async function promptOptions(
  word: string,
  api: ChatApi,
  trans: TranslationBundle
): Promise<IOption[]> {
  try {
    const { prompts } = await api.setup();
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
  const from = origin === 'user' ? trans.__('Your prompt') : trans.__('Project prompt');
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
  chosen: IOption | null;
}

const NOTHING: IFound = { key: '', options: [], notice: '', chosen: null };

/** Return whether two completions are the same one, which is found again at the next letter. */
function isSame(one: IOption | null, other: IOption): boolean {
  const kind = (option: IOption | null): unknown => option?.attached?.attachment.kind;
  return one?.label === other.label && kind(one) === kind(other);
}

/** Provide completions for a `@` or `/` before the cursor; `own` are the agent's commands. */
export function useCompleter(
  text: string,
  cursor: number,
  own: readonly AgentSlashCommand[],
  choose: (option: IOption, partial: ICompletionPrefix) => void
): ICompleter {
  const { chats, notebook, trans } = useServices();
  const seen = useSelector(state => state.seen);
  const [found, setFound] = useState(NOTHING);
  const [dismissed, setDismissed] = useState('');
  const partial = prefixAt(text, cursor);
  const key = partial === null ? '' : `${partial.start} ${partial.sign}${partial.word}`;
  useEffect(() => {
    let wanted = true;
    const completed = prefixAt(text, cursor);
    if (completed !== null) {
      complete(completed, notebook, chats.api, trans, own, completions => {
        if (wanted) {
          setFound(before => {
            const chosen = before.key === key ? before.chosen : null;
            return { key, ...completions, chosen: chosen ?? completions.options[0] ?? null };
          });
        }
      });
    }
    return () => {
      wanted = false;
    };
    // The key depends on text and cursor, and the cells on `seen`.
    // oxlint-disable-next-line react/exhaustive-deps
  }, [chats, key, notebook, own, seen, trans]);
  const { options, notice, chosen } =
    partial === null || key === dismissed || found.key !== key ? NOTHING : found;
  // The chosen completion stays the chosen one, wherever it is once more is found.
  const active = Math.max(
    0,
    options.findIndex(option => isSame(chosen, option))
  );
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
