import { useRef, useState } from 'react';
import type { JSX, RefObject } from 'react';

import type { ILine } from '../chat/diff';
import { useDesk } from './desk';

/** How many lines are shown before a person asks for all. */
const SHOWN = 30;

/** A diff, or what a call would do. Lines that went and came are told apart by more than colour. */
export function Lines({ lines, all }: { lines: readonly ILine[]; all?: boolean }): JSX.Element {
  const { trans } = useDesk();
  const [whole, setWhole] = useState(all === true || lines.length <= SHOWN + 5);
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
      {whole || <ShowAll count={lines.length} box={box} onClick={() => setWhole(true)} />}
    </>
  );
}

interface ILongTextProps {
  text: string;
  /** Where the text itself was cut: lines of the whole, where they are known, and the way to it. */
  more?: { count: number | null; show: () => void } | undefined;
}

/** A long text, of which the beginning is shown until a person asks for all. */
export function LongText({ text, more }: ILongTextProps): JSX.Element {
  const { trans } = useDesk();
  const lines = text.split('\n');
  const [whole, setWhole] = useState(more !== undefined || lines.length <= SHOWN + 5);
  const box = useRef<HTMLPreElement>(null);
  return (
    <>
      <pre
        ref={box}
        className="tk-Output"
        tabIndex={0}
        aria-label={trans.__('Output')}
        role="group"
      >
        {whole ? text : lines.slice(0, SHOWN).join('\n')}
      </pre>
      {more !== undefined && <ShowAll count={more.count} box={box} onClick={more.show} />}
      {whole || <ShowAll count={lines.length} box={box} onClick={() => setWhole(true)} />}
    </>
  );
}

interface IShowAllProps {
  /** How many lines there are; null where that is not known. */
  count: number | null;
  /** What is shown whole; the person goes on there, since the button goes away. */
  box: RefObject<HTMLElement>;
  onClick: () => void;
}

function ShowAll({ count, box, onClick }: IShowAllProps): JSX.Element {
  const { trans } = useDesk();
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
