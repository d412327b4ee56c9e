import { useRef, useState } from 'react';
import type { JSX } from 'react';

import { ShowAll, SHOWN } from '../common/Lines';
import { useServices } from './services';

interface IProps {
  text: string;
  /** Set if the text is truncated: the lines of the full text if known, and how to show it. */
  more?: { count: number | null; show: () => void } | undefined;
}

/** A long text, of which the first lines are shown until it is expanded. */
export function LongText({ text, more }: IProps): JSX.Element {
  const { trans } = useServices();
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
      {more !== undefined && (
        <ShowAll count={more.count} box={box} trans={trans} onClick={more.show} />
      )}
      {whole || (
        <ShowAll count={lines.length} box={box} trans={trans} onClick={() => setWhole(true)} />
      )}
    </>
  );
}
