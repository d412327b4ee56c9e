import { editIcon } from '@jupyterlab/ui-components';
import { memo } from 'react';
import type { JSX } from 'react';

import { doing } from '../chat/describe';
import { nameOfPath } from '../common/deleted';
import { type Item, isUnsent, type ITurn, waits } from '../state/chat';
import { CallCard } from './CallCard';
import { Button, ToolButton } from './controls';
import { useSelector, useServices } from './services';
import { Markdown } from './Markdown';
import { Problem } from './Problem';
import { TodoList, TurnEnd } from './TurnEnd';

interface IProps {
  turn: ITurn;
  /** The chat's key in the store. */
  chat: string;
}

/** A message with its answer. */
export const Turn = memo(function Turn({ turn, chat }: IProps): JSX.Element {
  const { controller, trans } = useServices();
  const continueText = trans.__('Continue.');
  const agent = useSelector(({ models }) => models?.agents?.[turn.model.replace(/:.*/, '')]);
  return (
    <div
      className="tk-Turn"
      role="group"
      aria-label={trans.__('Message')}
      aria-busy={turn.end === null}
      tabIndex={-1}
    >
      <div className="tk-Said">
        <div className="tk-Who">
          {trans.__('You')}
          {!turn.replaced && (
            <ToolButton
              icon={editIcon}
              label={trans.__('Edit and send again')}
              onClick={() => controller.edit(turn)}
            />
          )}
        </div>
        <div className="tk-Said-text">{turn.text}</div>
        <div className="tk-Chips">
          {turn.notebook !== null && (
            <NotebookChip notebook={turn.notebook} cell={turn.activeCell} />
          )}
          {turn.attachments.map((attachment, place) => (
            <span key={place} className="tk-Chip">
              {attachment}
            </span>
          ))}
        </div>
      </div>
      {(waits(turn) || isUnsent(turn)) && <Queued turn={turn} />}
      <div className="tk-Answer" hidden={waits(turn) || isUnsent(turn)}>
        <div className="tk-Who">{agent ?? trans.__('Claude')}</div>
        {turn.items.map((item, place) => (
          <Part key={keyOf(item, place)} item={item} />
        ))}
        {turn.todo.length > 0 && <TodoList items={turn.todo} />}
        {turn.end === null && <Doing turn={turn} />}
        {turn.error !== null && (
          <Problem
            problem={turn.error}
            onRetry={turn.replaced ? undefined : () => void controller.resend(turn)}
            onContinue={
              turn.replaced || turn.items.length === 0
                ? undefined
                : () => void controller.resend(turn, { text: continueText })
            }
          />
        )}
        {turn.end !== null && <TurnEnd turn={turn} chat={chat} continueText={continueText} />}
      </div>
    </div>
  );
});

/** The notebook of a message, which leads to the cell that was active. */
function NotebookChip({ notebook, cell }: { notebook: string; cell: string | null }): JSX.Element {
  const services = useServices();
  const { trans } = services;
  const name = nameOfPath(notebook, trans);
  return cell === null ? (
    <span className="tk-Chip">{name}</span>
  ) : (
    <button
      type="button"
      className="tk-Chip"
      title={trans.__('Go to the cell that was active')}
      onClick={() => void services.notebook.reveal(notebook, cell)}
    >
      {name}
    </button>
  );
}

function Part({ item }: { item: Item }): JSX.Element {
  const { trans } = useServices();
  switch (item.kind) {
    case 'text':
      return <Markdown text={item.text} />;
    case 'thinking':
      return (
        <details className="tk-Thinking">
          <summary>{trans.__('Thought')}</summary>
          <div className="tk-Thinking-text">{item.text}</div>
        </details>
      );
    case 'notice':
      return <div className="tk-Notice">{item.text}</div>;
    case 'call':
      return <CallCard call={item} />;
  }
}

function Doing({ turn }: { turn: ITurn }): JSX.Element {
  const { trans } = useServices();
  return (
    <div className="tk-Doing">
      <span className="tk-Dot" />
      {doing(turn, trans)}
    </div>
  );
}

/** Return a stable key of an item, so that an open card stays open. */
function keyOf(item: Item, place: number): string {
  switch (item.kind) {
    case 'call':
      return item.id;
    case 'notice':
      return `notice ${place}`;
    default:
      return `block ${item.block}`;
  }
}

/** The status of a message that is queued, or was withdrawn from the queue. */
function Queued({ turn }: { turn: ITurn }): JSX.Element {
  const { controller, trans } = useServices();
  return (
    <div className="tk-Ending">
      <span className="tk-Doing">
        {isUnsent(turn) ? trans.__('Not sent.') : trans.__('Queued')}
      </span>
      {isUnsent(turn) ? (
        <Button onClick={() => void controller.resend(turn)}>{trans.__('Send')}</Button>
      ) : (
        <Button onClick={() => void controller.chat.stop(turn.id)}>{trans.__('Remove')}</Button>
      )}
    </div>
  );
}
