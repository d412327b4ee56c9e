import type { JSX } from 'react';

import { fenced } from '../chat/blocks';
import { nameOfPath } from '../common/deleted';
import { visible } from '../common/visible';
import type { ICall } from '../state/chat';
import { ChangeLines } from './CodeLines';
import { JsonTree } from './JsonTree';
import { Rendered } from './Rendered';
import { Results } from './Results';
import { useServices } from './services';

/** The content of the card of a tool call: its arguments, changes and result. */
export function CallDetails({ call }: { call: ICall }): JSX.Element {
  const { notebook, trans } = useServices();
  const given = codeOf(call);
  const place = touchedCell(call);
  const code =
    given === '' && place !== null ? notebook.sourceOf(place.notebook, place.cell) : given;
  const others = Object.entries(call.arguments).filter(([, value]) => value !== code);
  return (
    <div className="tk-Call-details">
      {place !== null && (
        <button
          type="button"
          className="tk-Link"
          onClick={() => void notebook.reveal(place.notebook, place.cell)}
        >
          {trans.__('Show cell in %1', nameOfPath(place.notebook, trans))}
        </button>
      )}
      {others.length > 0 && (
        <JsonTree name={trans.__('Arguments')} value={Object.fromEntries(others)} />
      )}
      {call.changes.length > 0 ? (
        call.changes.map(change => <ChangeLines key={change.entry} change={change} />)
      ) : code !== '' ? (
        <Rendered
          source={fenced(
            visible(code),
            call.arguments['cell_type'] === 'markdown' ? 'md' : 'python'
          )}
        />
      ) : null}
      {call.result !== null && <Results result={call.result} changed={call.changes.length > 0} />}
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

/** Return the cell that a call changed or ran; null for none. */
export function touchedCell(call: ICall): { notebook: string; cell: string } | null {
  const change = call.changes.at(-1);
  if (change !== undefined) {
    return { notebook: change.notebook, cell: change.cell };
  }
  const { notebook, runs } = call.result?.structured ?? {};
  const last = Array.isArray(runs) ? (runs as { cell?: unknown }[]).at(-1) : undefined;
  return typeof notebook === 'string' && typeof last?.cell === 'string'
    ? { notebook, cell: last.cell }
    : null;
}
