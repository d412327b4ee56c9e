import { useEffect, useRef } from 'react';
import type { JSX } from 'react';

import type { ICompleter } from './completer';
import type { ICompletionPrefix, IOption } from './prefix';
import { useServices } from './services';

export interface ICompletionsProps {
  id: string;
  completer: ICompleter;
  choose: (option: IOption, partial: ICompletionPrefix) => void;
}

/** The list of completions above the message box. */
export function Completions({ id, completer, choose }: ICompletionsProps): JSX.Element | null {
  const { trans } = useServices();
  const { options, active, partial, notice } = completer;
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    list.current?.children[active]?.scrollIntoView({ block: 'nearest' });
  }, [active, options]);
  if (partial === null) {
    return null;
  }
  return (
    <div className="tk-Completions">
      {options.length > 0 && (
        <ul ref={list} id={id} role="listbox" aria-label={trans.__('Suggestions')}>
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
      )}
      <div role="status" className="tk-Completion-note">
        {notice}
      </div>
    </div>
  );
}
