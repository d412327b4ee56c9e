import { useEffect, useMemo, useRef, useState } from 'react';
import type { JSX, KeyboardEvent } from 'react';

import {
  fileOptions,
  type IOption,
  type ICompletionPrefix,
  nearOptions,
  prefixAt,
  together
} from './completion';
import { useSelector, useServices } from './services';

export interface ICompleter {
  options: readonly IOption[];
  active: number;
  partial: ICompletionPrefix | null;
  /** Handle a key. Return whether it was handled. */
  onKey(event: KeyboardEvent): boolean;
}

const NOTHING = { key: '', options: [] };

/** Provide completions for a `@` or `/` before the cursor. */
export function useCompleter(
  text: string,
  cursor: number,
  choose: (option: IOption, partial: ICompletionPrefix) => void
): ICompleter {
  const { notebook, trans } = useServices();
  const seen = useSelector(state => state.seen);
  const [files, setFiles] = useState<{ key: string; options: readonly IOption[] }>(NOTHING);
  const [at, setAt] = useState({ key: '', place: 0 });
  const [dismissed, setDismissed] = useState('');
  const partial = prefixAt(text, cursor);
  const key = partial === null ? '' : `${partial.start} ${partial.sign}${partial.word}`;
  useEffect(() => {
    let wanted = true;
    const completed = prefixAt(text, cursor);
    if (completed !== null) {
      void fileOptions(completed, notebook, trans).then(options => {
        if (wanted) {
          setFiles({ key, options });
        }
      });
    }
    return () => {
      wanted = false;
    };
    // The key depends on text and cursor.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [key, notebook, trans]);
  // Cells and commands are known; files are requested from the server.
  const near = useMemo(
    () => (partial === null ? NOTHING.options : nearOptions(partial, notebook, trans)),
    // The key depends on text and cursor, and the cells on `seen`.
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [key, notebook, seen, trans]
  );
  const far = files.key === key ? files.options : NOTHING.options;
  const offered = useMemo(() => together(near, far), [near, far]);
  const open = partial === null || key === dismissed ? NOTHING.options : offered;
  const active = at.key === key ? at.place : 0;
  const setActive = (place: number): void => setAt({ key, place });

  const onKey = (event: KeyboardEvent): boolean => {
    const option = open[active];
    if (option === undefined || partial === null) {
      return false;
    }
    switch (event.key) {
      case 'ArrowDown':
        setActive((active + 1) % open.length);
        return true;
      case 'ArrowUp':
        setActive((active + open.length - 1) % open.length);
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
  return { options: open, active, partial, onKey };
}

interface IProps {
  id: string;
  completer: ICompleter;
  choose: (option: IOption, partial: ICompletionPrefix) => void;
}

/** The list of completions above the message box. */
export function Completions({ id, completer, choose }: IProps): JSX.Element | null {
  const { trans } = useServices();
  const { options, active, partial } = completer;
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    list.current?.children[active]?.scrollIntoView({ block: 'nearest' });
  }, [active, options]);
  if (options.length === 0 || partial === null) {
    return null;
  }
  return (
    <ul
      ref={list}
      className="tk-Completions"
      id={id}
      role="listbox"
      aria-label={trans.__('Suggestions')}
    >
      {options.map((option, place) => (
        <li
          key={`${option.label} ${place}`}
          id={`${id}-${place}`}
          role="option"
          aria-selected={place === active}
          className="tk-Completion"
          onMouseDown={event => {
            event.preventDefault();
            choose(option, partial);
          }}
        >
          <span>{option.label}</span>
          <span className="tk-Completion-note">{option.note}</span>
        </li>
      ))}
    </ul>
  );
}
