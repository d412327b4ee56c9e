import type { TranslationBundle } from '@jupyterlab/translation';
import { useRef, useState } from 'react';
import type { JSX, RefObject } from 'react';

import type { ILine } from './diff';

/** How many lines are shown before a person asks for all. */
export const SHOWN = 30;

interface IProps {
  lines: readonly ILine[];
  trans: TranslationBundle;
}

/** A diff, or what a call would do. Lines that went and came are told apart by more than colour. */
export function Lines({ lines, trans }: IProps): JSX.Element {
  const [whole, setWhole] = useState(lines.length <= SHOWN + 5);
  const shown = whole ? lines : lines.slice(0, SHOWN);
  const box = useRef<HTMLDivElement>(null);
  return (
    <>
      <div ref={box} className="tk-Lines" tabIndex={0} role="group" aria-label={trans.__('Lines')}>
        {shown.map((line, place) => (
          <div key={place} className={`tk-Line tk-mod-${line.kind}`}>
            <span className="tk-Line-sign">{signOf(line)}</span>
            <span>{line.text}</span>
          </div>
        ))}
      </div>
      {whole || (
        <ShowAll count={lines.length} box={box} trans={trans} onClick={() => setWhole(true)} />
      )}
    </>
  );
}

interface IShowAllProps {
  /** How many lines there are; null where that is not known. */
  count: number | null;
  /** What is shown whole; the person goes on there, since the button goes away. */
  box: RefObject<HTMLElement>;
  trans: TranslationBundle;
  onClick: () => void;
}

/** Shows the rest of what is long. */
export function ShowAll({ count, box, trans, onClick }: IShowAllProps): JSX.Element {
  const showAll = (): void => {
    box.current?.focus({ preventScroll: true });
    onClick();
  };
  return (
    <button type="button" className="tk-Link" onClick={showAll}>
      {count === null
        ? trans.__('Show all')
        : trans.__('Show all %1 lines', count.toLocaleString())}
    </button>
  );
}

function signOf(line: ILine): string {
  return line.kind === 'added' ? '+' : line.kind === 'removed' ? '−' : ' ';
}
