/** The card of a tool call: a title that opens to its arguments, changes and result. */

import { checkIcon, closeIcon, ellipsesIcon, stopIcon } from '@jupyterlab/ui-components';
import { type JSX, memo, useRef, useState } from 'react';

import { ApiError, problemText } from '../api/client';
import type { CellRun, ToolAnsweredEvent, ToolResultImage } from '../api/events';
import { fenced } from '../chat/blocks';
import { describe, duration } from '../chat/describe';
import { runsOf, textOf, touchedCell } from '../chat/runs';
import { isFile } from '../common/changes';
import { nameOfPath } from '../common/deleted';
import { tally } from '../common/diff';
import { ShowAll, SHOWN } from '../common/Lines';
import { cellName } from '../common/position';
import type { CallStatus, ICall } from '../state/chat';
import { save } from './browser';
import { ChangeLines } from './CodeLines';
import { Fold } from './controls';
import { Rendered } from './Markdown';
import { Answers } from './QuestionForm';
import { useServices } from './services';

const IMAGE_TYPES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

/** A tool call: a title that expands to its arguments, changes and result. */
export const CallCard = memo(function CallCard({ call }: { call: ICall }): JSX.Element {
  const { trans } = useServices();
  const { added, removed } = tally(call.changes.map(change => change.diff));
  return (
    <div className={`tk-Call tk-mod-${call.status}`} data-call={call.id} data-tool={call.tool}>
      <Fold
        open={call.status === 'error'}
        summary={
          <>
            <span className="tk-Call-title">{describe(call, trans)}</span>
            {call.progress !== '' && call.status === 'running' ? (
              <span className="tk-Call-progress">{call.progress}</span>
            ) : null}
            {call.changes.length > 0 && <Tally added={added} removed={removed} />}
            {call.result !== null && call.result.seconds >= 0.1 && (
              <span className="tk-Call-seconds">{duration(call.result.seconds)}</span>
            )}
            <Status call={call} />
          </>
        }
      >
        {() => <CallDetails call={call} />}
      </Fold>
      <Answers call={call} />
      {call.result?.images.map((picture, place) => (
        <Picture key={place} picture={picture} />
      ))}
    </div>
  );
});

function Picture({ picture }: { picture: ToolResultImage }): JSX.Element | null {
  const { trans } = useServices();
  if (!IMAGE_TYPES.has(picture.mime)) {
    return null;
  }
  return (
    <img
      className="tk-Picture"
      src={`data:${picture.mime};base64,${picture.data}`}
      alt={trans.__('Cell output image')}
    />
  );
}

/** The status icon of a call. */
function Status({ call: { status, questions } }: { call: ICall }): JSX.Element {
  const { trans } = useServices();
  const words: Record<CallStatus, string> = {
    pending:
      questions.length > 0
        ? trans.__('Waiting for your answer')
        : trans.__('Waiting for your approval'),
    running: trans.__('Running'),
    complete: trans.__('Done'),
    error: trans.__('Failed'),
    denied: trans.__('Denied'),
    stopped: trans.__('Stopped')
  };
  const icon = {
    pending: ellipsesIcon,
    running: null,
    complete: checkIcon,
    error: closeIcon,
    denied: closeIcon,
    stopped: stopIcon
  }[status];
  return (
    <span
      className={icon === null ? 'tk-Dot' : `tk-Status tk-mod-${status}`}
      role="img"
      aria-label={words[status]}
      title={words[status]}
    >
      {icon === null ? null : <icon.react tag="span" width="14px" height="14px" />}
    </span>
  );
}

/** How many lines were added and removed. */
export function Tally({ added, removed }: { added: number; removed: number }): JSX.Element {
  return (
    <span className="tk-Call-tally">
      {added > 0 && <span className="tk-mod-added">+{added}</span>}{' '}
      {removed > 0 && <span className="tk-mod-removed">−{removed}</span>}
    </span>
  );
}

/** The content of the card of a tool call: its arguments, changes and result. */
function CallDetails({ call }: { call: ICall }): JSX.Element {
  const { notebook, trans } = useServices();
  const given = codeOf(call);
  const place = touchedCell(call);
  const code =
    given === '' && place !== null ? notebook.sourceOf(place.notebook, place.cell) : given;
  const others = Object.entries(call.arguments).filter(([, value]) => value !== code);
  const details = [...others, ...Object.entries(call.result?.structured ?? {})];
  return (
    <div className="tk-Call-details">
      {place !== null && (
        <button
          type="button"
          className="tk-Link"
          onClick={() => void notebook.reveal(place.notebook, place.cell)}
        >
          {isFile(place.cell)
            ? trans.__('Show %1', nameOfPath(place.notebook, trans))
            : trans.__('Show cell in %1', nameOfPath(place.notebook, trans))}
        </button>
      )}
      {call.changes.length > 0 ? (
        call.changes.map(change => <ChangeLines key={change.entry} change={change} />)
      ) : code !== '' ? (
        <Rendered
          source={fenced(code, call.arguments['cell_type'] === 'markdown' ? 'md' : 'python')}
        />
      ) : null}
      {call.result !== null && <Results result={call.result} changed={call.changes.length > 0} />}
      {details.length > 0 && (
        <JsonTree name={trans.__('Details')} value={Object.fromEntries(details)} />
      )}
    </div>
  );
}

/** Return the code in the arguments of a call; empty for none. */
function codeOf(call: ICall): string {
  for (const name of ['source', 'code', 'content', 'text', 'new', 'new_source']) {
    const value = call.arguments[name];
    if (typeof value === 'string' && value !== '') {
      return value;
    }
  }
  return '';
}

/** Maximum characters that are shown in a card. Longer texts are downloaded. */
const MAX_SHOWN = 2_000_000;

interface IResultsProps {
  result: ToolAnsweredEvent;
  /** Whether the card shows changes. Then only the notices of the result are shown. */
  changed: boolean;
}

/** The result of a call: the outputs of runs, or the text of the tool. */
function Results({ result, changed }: IResultsProps): JSX.Element {
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
      {/* Why it ended without an error in the output, such as the kernel's death. */}
      {run.message != null && <div className="tk-Notice">{run.message}</div>}
    </div>
  );
}

function noticesOf({ structured }: ToolAnsweredEvent): string[] {
  const { notices } = structured;
  return Array.isArray(notices) ? notices.filter(each => typeof each === 'string') : [];
}

/** A truncated output, with a button that requests the full text from the server. */
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

interface ILongTextProps {
  text: string;
  /** Set if the text is truncated: the lines of the full text if known, and how to show it. */
  more?: { count: number | null; show: () => void } | undefined;
}

/** A long text, of which the first lines are shown until it is expanded. */
function LongText({ text, more }: ILongTextProps): JSX.Element {
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

interface IJsonProps {
  name?: string;
  value: unknown;
  open?: boolean;
}

/** Maximum number of entries of an array or object that are rendered. */
const MAX_ENTRIES = 200;

/** A JSON value as a collapsible tree. */
function JsonTree({ name, value, open }: IJsonProps): JSX.Element {
  const label = name === undefined ? null : <span className="tk-Json-key">{name}: </span>;
  if (typeof value !== 'object' || value === null) {
    return (
      <div className="tk-Json-leaf">
        {label}
        {JSON.stringify(value)}
      </div>
    );
  }
  const entries = Object.entries(value as Record<string, unknown>);
  const [before, after] = Array.isArray(value) ? ['[', ']'] : ['{', '}'];
  return (
    <Fold
      className="tk-Json"
      open={open === true}
      summary={
        <>
          {label}
          {`${before}${entries.length}${after}`}
        </>
      }
    >
      {() => (
        <>
          {entries.slice(0, MAX_ENTRIES).map(([key, each]) => (
            <JsonTree key={key} name={key} value={each} />
          ))}
          {entries.length > MAX_ENTRIES && (
            <div className="tk-Json-leaf">{`… ${entries.length - MAX_ENTRIES}`}</div>
          )}
        </>
      )}
    </Fold>
  );
}
