import type { Extension } from '@codemirror/state';
import type { TranslationBundle } from '@jupyterlab/translation';
import { useLayoutEffect, useMemo, useRef, useState } from 'react';
import type { JSX, RefObject } from 'react';

import type { ILine } from './diff';
import { showLines } from './linesEditor';

/** Number of lines that are shown until the person shows all. */
export const SHOWN = 30;

/** Maximum number of lines in the editor, which would block the page with more. */
export const MAX_DRAWN = 1500;

interface IProps {
  lines: readonly ILine[];
  trans: TranslationBundle;
  /** Whether all lines are shown initially. */
  whole?: boolean;
  /** The language, for syntax highlighting. */
  language?: Extension | undefined;
}

const PLAIN: Extension = [];

/** The lines of a diff or of code. Added and removed lines differ by signs, not by color only. */
export function Lines({ lines, trans, whole = false, language = PLAIN }: IProps): JSX.Element {
  const [all, setAll] = useState(whole || lines.length <= SHOWN + 5);
  const shown = useMemo(() => (all ? lines : lines.slice(0, SHOWN)), [all, lines]);
  const isLong = shown.length > MAX_DRAWN;
  const box = useRef<HTMLDivElement>(null);
  const host = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const node = host.current;
    return node === null || isLong ? undefined : showLines(node, shown, language, trans);
  }, [isLong, language, shown, trans]);
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
          <div ref={host} />
          {isLong && (
            <pre className="tk-Lines-text">
              {shown.map(line => `${signOf(line)} ${line.text}`).join('\n')}
            </pre>
          )}
        </div>
        <Below box={box} trans={trans} />
      </div>
      {isLong && (
        <div className="tk-Notice">
          {trans.__('The text is too long for the diff view. Plain lines are shown.')}
        </div>
      )}
      {all || <ShowAll count={lines.length} box={box} trans={trans} onClick={() => setAll(true)} />}
    </>
  );
}

/** A button with the number of lines below the visible part of a box, which scrolls to them. */
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
      // Counted as rows on the screen: an editor has nodes for visible lines only.
      const row = parseFloat(getComputedStyle(node).lineHeight);
      setCount(isCut ? Math.max(1, Math.round((node.scrollHeight - bottom) / row)) : 0);
    };
    look();
    node.addEventListener('scroll', look);
    const observer = new ResizeObserver(look);
    [node, ...node.children].forEach(each => observer.observe(each));
    return () => {
      node.removeEventListener('scroll', look);
      observer.disconnect();
    };
  }, [box]);
  if (count === 0) {
    return null;
  }
  const scroll = (): void => {
    // Keys scroll on from there; at the end the button is removed.
    box.current?.focus({ preventScroll: true });
    box.current?.scrollBy({ top: box.current.clientHeight * 0.8 });
  };
  return (
    <button type="button" className="tk-Lines-below" onClick={scroll}>
      {trans._n('↓ %1 more line', '↓ %1 more lines', count)}
    </button>
  );
}

interface IShowAllProps {
  /** The number of lines; null if unknown. */
  count: number | null;
  /** The element that gets the focus, since the button is removed. */
  box: RefObject<HTMLElement>;
  trans: TranslationBundle;
  onClick: () => void;
}

/** A button that shows all lines. */
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

function signOf(line: ILine): string {
  return line.kind === 'added' ? '+' : line.kind === 'removed' ? '−' : ' ';
}
