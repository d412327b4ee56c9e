import { useEffect, useState } from 'react';
import type { KeyboardEvent } from 'react';

import { contextParts } from './later';
import { type ICompletionPrefix, type ICompletions, type IOption, prefixAt } from './prefix';
import { useSelector, useServices } from './services';

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
      void contextParts().then(({ complete }) =>
        complete(completed, notebook, trans, completions => {
          if (wanted) {
            setFound(before => withMore(before, { key, search, ...completions }));
          }
        })
      );
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
