import type { TranslationBundle } from '@jupyterlab/translation';
import { useLayoutEffect, useRef, useState } from 'react';
import type { JSX, RefObject } from 'react';

import type { ILine } from './diff';

/** How many lines are shown before a person asks for all. */
export const SHOWN = 30;

interface IProps {
  lines: readonly ILine[];
  trans: TranslationBundle;
  /** Whether all lines are shown at once, however many. */
  whole?: boolean;
}

/** A diff, or code. Lines that went and came are told apart by more than colour. */
export function Lines({ lines, trans, whole = false }: IProps): JSX.Element {
  const [all, setAll] = useState(whole || lines.length <= SHOWN + 5);
  const shown = all ? lines : lines.slice(0, SHOWN);
  const box = useRef<HTMLDivElement>(null);
  return (
    <>
      <div className="tk-Lines-frame">
        <div
          ref={box}
          className="tk-Lines"
          tabIndex={0}
          role="group"
          aria-label={trans.__('Lines')}
        >
          {shown.map((line, place) =>
            line.kind === 'place' && place === 0 ? null : (
              <div key={place} className={`tk-Line tk-mod-${line.kind}`}>
                <span className="tk-Line-sign">{signOf(line)}</span>
                <span className="tk-Line-text">{textOf(line)}</span>
              </div>
            )
          )}
        </div>
        <Below box={box} trans={trans} />
      </div>
      {all || <ShowAll count={lines.length} box={box} trans={trans} onClick={() => setAll(true)} />}
    </>
  );
}

/** Says how many lines are below what is visible of a box, and scrolls to them. */
function Below({
  box,
  trans
}: {
  box: RefObject<HTMLElement>;
  trans: TranslationBundle;
}): JSX.Element | null {
  const [count, setCount] = useState(0);
  useLayoutEffect(() => {
    const node = box.current;
    if (node === null) {
      return;
    }
    const look = (): void => {
      const bottom = node.scrollTop + node.clientHeight;
      const isCut = node.scrollHeight - bottom > 4;
      // Where the lines are not laid out, their tops are all 0.
      const below = [...node.children].filter(
        line => (line as HTMLElement).offsetTop - node.offsetTop >= bottom
      );
      setCount(isCut ? Math.max(1, below.length) : 0);
    };
    look();
    node.addEventListener('scroll', look);
    const observer = typeof ResizeObserver === 'undefined' ? null : new ResizeObserver(look);
    observer?.observe(node);
    return () => {
      node.removeEventListener('scroll', look);
      observer?.disconnect();
    };
  }, [box]);
  if (count === 0) {
    return null;
  }
  return (
    <button
      type="button"
      className="tk-Lines-below"
      onClick={() => box.current?.scrollBy({ top: box.current.clientHeight * 0.8 })}
    >
      {trans._n('↓ %1 more line', '↓ %1 more lines', count)}
    </button>
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
        : trans._n('Show all %2 line', 'Show all %2 lines', count, count.toLocaleString())}
    </button>
  );
}

function textOf({ kind, text, parts }: ILine): JSX.Element | string {
  if (parts === undefined) {
    // Where a hunk begins, in numbers of lines, is for programs.
    return kind === 'place' ? '⋯' : text;
  }
  return (
    <>
      {parts.map((part, place) =>
        part.changed ? (
          <mark key={place} className="tk-Line-changed">
            {part.text}
          </mark>
        ) : (
          part.text
        )
      )}
    </>
  );
}

function signOf(line: ILine): string {
  return line.kind === 'added' ? '+' : line.kind === 'removed' ? '−' : ' ';
}
