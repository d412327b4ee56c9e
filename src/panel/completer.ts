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

const NOTHING: ICompletions & { key: string } = { key: '', options: [], notice: '' };

/** Provide completions for a `@` or `/` before the cursor. */
export function useCompleter(
  text: string,
  cursor: number,
  choose: (option: IOption, partial: ICompletionPrefix) => void
): ICompleter {
  const { notebook, trans } = useServices();
  const seen = useSelector(state => state.seen);
  const [found, setFound] = useState(NOTHING);
  const [at, setAt] = useState({ key: '', place: 0 });
  const [dismissed, setDismissed] = useState('');
  const partial = prefixAt(text, cursor);
  const key = partial === null ? '' : `${partial.start} ${partial.sign}${partial.word}`;
  useEffect(() => {
    let wanted = true;
    const completed = prefixAt(text, cursor);
    if (completed !== null) {
      void contextParts().then(({ complete }) =>
        complete(completed, notebook, trans, completions => {
          if (wanted) {
            setFound({ key, ...completions });
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
  const { options, notice } =
    partial === null || key === dismissed || found.key !== key ? NOTHING : found;
  const active = at.key === key ? at.place : 0;
  const setActive = (place: number): void => setAt({ key, place });

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
