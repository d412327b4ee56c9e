import { useRef, useState } from 'react';
import type { JSX } from 'react';

import { ShowAll, SHOWN } from '../parts/Lines';
import { useServices } from './services';

interface IProps {
  text: string;
  /** Where the text itself was cut: lines of the whole, where they are known, and the way to it. */
  more?: { count: number | null; show: () => void } | undefined;
}

/** A long text, of which the beginning is shown until a person asks for all. */
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
