import { useState } from 'react';
import type { JSX } from 'react';

import { ApiError, problemText } from '../api/client';
import type { CellRun } from '../api/events';
import type { IResult } from '../state/chat';
import { runsOf, textOf } from '../chat/runs';
import { cellName } from '../common/position';
import { useServices } from './services';
import { JsonTree } from './JsonTree';
import { LongText } from './LongText';
import { save } from './download';

/** Maximum characters that are shown in a card. Longer texts are downloaded. */
const MAX_SHOWN = 2_000_000;

interface IProps {
  result: IResult;
  /** Whether the card shows changes. Then only the notices of the result are shown. */
  changed: boolean;
}

/** The result of a call: the outputs of runs, or the text of the tool. */
export function Results({ result, changed }: IProps): JSX.Element {
  const { trans } = useServices();
  const runs = runsOf(result.structured);
  return (
    <>
      {runs.map((run, place) => (
        <Run key={place} run={run} named={runs.length > 1} />
      ))}
      {changed &&
        result.ok &&
        noticesOf(result).map((notice, place) => (
          <div key={place} className="tk-Notice">
            {notice}
          </div>
        ))}
      {runs.length === 0 && !(changed && result.ok) && result.text !== '' && (
        <LongText text={result.text} />
      )}
      {Object.keys(result.structured).length > 0 && (
        <JsonTree name={trans.__('Result')} value={result.structured} />
      )}
    </>
  );
}

function Run({ run, named }: { run: CellRun; named: boolean }): JSX.Element {
  const { trans } = useServices();
  const text = textOf(run);
  return (
    <div>
      {named && run.index != null && (
        <div className="tk-Run-title">{cellName(run.index, trans)}</div>
      )}
      {run.data?.map((value, number) => (
        <JsonTree key={number} name={trans.__('Output')} value={value} open />
      ))}
      {run.artifact != null ? (
        <CutText text={text} lines={run.total_lines ?? null} artifact={run.artifact} />
      ) : (
        text !== '' && <LongText text={text} />
      )}
    </div>
  );
}

function noticesOf({ structured }: IResult): string[] {
  const { notices } = structured;
  return Array.isArray(notices) ? notices.filter(each => typeof each === 'string') : [];
}

/** A truncated output, whose full text can be requested from the server. */
function CutText(props: {
  text: string;
  /** Lines of the full text; null if unknown. */
  lines: number | null;
  artifact: string;
}): JSX.Element {
  const { text, lines, artifact } = props;
  const { chats, trans } = useServices();
  const [whole, setWhole] = useState<string | null>(null);
  const [note, setNote] = useState('');
  const show = async (): Promise<void> => {
    setNote('');
    try {
      const found = await chats.api.artifact(artifact);
      if (found.size > MAX_SHOWN) {
        save(found, `${artifact}.txt`);
      } else {
        setWhole(await found.text());
      }
    } catch (error) {
      if (!(error instanceof ApiError)) {
        throw error;
      }
      const { problem } = error;
      setNote(
        problem.code === 'not_found'
          ? trans.__('The full output is no longer stored.')
          : problemText(problem)
      );
    }
  };
  return (
    <>
      <LongText
        text={whole ?? text}
        more={whole === null ? { count: lines, show: () => void show() } : undefined}
      />
      {note !== '' && (
        <div className="tk-Notice" role="status">
          {note}
        </div>
      )}
    </>
  );
}
