import type { TranslationBundle } from '@jupyterlab/translation';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react';
import type { JSX, RefObject } from 'react';

import type { ILine } from './diff';

/** Number of lines that are shown until the person shows all. */
export const SHOWN = 30;

/** Maximum number of lines in the editor, which would block the page with more. */
export const MAX_DRAWN = 1500;

/** Maximum number of lines with DOM nodes of their own. More lines are one text. */
const MAX_NODES = 200;

/** Draws lines in a node. Resolves with a function that removes them, or null if it is not possible. */
export type Draw = (node: HTMLElement, lines: readonly ILine[]) => Promise<(() => void) | null>;

interface IProps {
  lines: readonly ILine[];
  trans: TranslationBundle;
  /** Whether all lines are shown initially. */
  whole?: boolean;
  /** Draws the lines in an editor, when it is loaded. */
  draw?: Draw | undefined;
}

/** The lines of a diff or of code. Added and removed lines differ by signs, not by color only. */
export function Lines({ lines, trans, whole = false, draw }: IProps): JSX.Element {
  const [all, setAll] = useState(whole || lines.length <= SHOWN + 5);
  const shown = useMemo(() => (all ? lines : lines.slice(0, SHOWN)), [all, lines]);
  const isLong = draw !== undefined && shown.length > MAX_DRAWN;
  const box = useRef<HTMLDivElement>(null);
  const host = useRef<HTMLDivElement>(null);
  const [drawn, setDrawn] = useState(false);
  useEffect(() => {
    if (draw === undefined || isLong) {
      return;
    }
    let remove: (() => void) | null = null;
    let isGone = false;
    void draw(host.current as HTMLElement, shown).then(done => {
      if (isGone) {
        done?.();
      } else {
        remove = done;
        setDrawn(done !== null);
      }
    });
    return () => {
      isGone = true;
      remove?.();
      setDrawn(false);
    };
  }, [draw, isLong, shown]);
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
          <div>{drawn || <Plain lines={shown} />}</div>
        </div>
        <Below box={box} trans={trans} />
      </div>
      {isLong && <div className="tk-Notice">{plainNote(trans)}</div>}
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

/** Return the note on lines that are too many for the editor. */
export function plainNote(trans: TranslationBundle): string {
  return trans.__('Shown as plain lines: it is too long for the diff view.');
}

function Plain({ lines }: { lines: readonly ILine[] }): JSX.Element {
  // Replace hunk headers, whose line numbers are for programs.
  const rows = lines
    .filter(({ kind }, place) => kind !== 'place' || place > 0)
    .map(line => (line.kind === 'place' ? { ...line, text: '⋯' } : line));
  if (rows.length > MAX_NODES) {
    const text = rows.map(row => `${signOf(row)} ${row.text}`).join('\n');
    return <pre className="tk-Lines-text">{text}</pre>;
  }
  return (
    <>
      {rows.map((row, place) => (
        <div key={place} className={`tk-Line tk-mod-${row.kind}`}>
          <span className="tk-Line-sign">{signOf(row)}</span>
          <span className="tk-Line-text">{row.text}</span>
        </div>
      ))}
    </>
  );
}

function signOf(line: ILine): string {
  return line.kind === 'added' ? '+' : line.kind === 'removed' ? '−' : ' ';
}
