import { copyIcon, editIcon } from '@jupyterlab/ui-components';
import { memo } from 'react';
import type { JSX } from 'react';

import type { Mode } from '../api/events';
import { doing, dollars, duration, tokens } from '../chat/describe';
import type { ChatModel } from '../chat/model';
import { type Item, isUnsent, type ITurn, waits } from '../chat/state';
import { Button } from './Button';
import { CallCard } from './CallCard';
import { Changes } from './Changes';
import { copyText } from './clipboard';
import { useDesk } from './desk';
import { Markdown } from './Markdown';
import { Problem } from './Problem';
import { ToolButton } from './ToolButton';

export interface ITurnActions {
  /** Puts a message back into the box. */
  edit(turn: ITurn): void;
  /** Has its plan carried out. */
  approve(turn: ITurn, mode: Mode): void;
  /** Lets the person write what is to be different in its plan. */
  revise(turn: ITurn): void;
  /** Takes back a message that waits. */
  withdraw(turn: ITurn): void;
  /** Sends the same message again, or another one about the same notebook. */
  resend(turn: ITurn, change?: { text?: string; mode?: Mode }): void;
}

interface IProps {
  turn: ITurn;
  chat: ChatModel;
  actions: ITurnActions;
  preferThinking: boolean;
  showCost: boolean;
}

/** A message, and all that Claude said and did because of it. */
export const Turn = memo(function Turn(props: IProps): JSX.Element {
  const { turn, chat, actions } = props;
  const { trans } = useDesk();
  const last = lastWords(turn);
  return (
    <div
      className="tk-Turn"
      role="group"
      aria-label={trans.__('Message')}
      aria-busy={turn.end === null}
    >
      <div className="tk-Said">
        <div className="tk-Who">
          {trans.__('You')}
          {!turn.replaced && (
            <ToolButton
              icon={editIcon}
              label={trans.__('Edit and send again')}
              onClick={() => actions.edit(turn)}
            />
          )}
        </div>
        <div className="tk-Said-text">{turn.text}</div>
        <div className="tk-Chips">
          {turn.notebook !== null && <span className="tk-Chip">{turn.notebook}</span>}
          {turn.attachments.map((attachment, place) => (
            <span key={place} className="tk-Chip">
              {attachment}
            </span>
          ))}
        </div>
      </div>
      {(waits(turn) || isUnsent(turn)) && <Queued turn={turn} actions={actions} />}
      <div className="tk-Answer" hidden={waits(turn) || isUnsent(turn)}>
        <div className="tk-Who">
          {trans.__('Claude')}
          {last !== '' && turn.end !== null && (
            <ToolButton
              icon={copyIcon}
              label={trans.__('Copy the answer')}
              onClick={() => void copyText(last)}
            />
          )}
        </div>
        {turn.items.map((item, place) => (
          <Part key={keyOf(item, place)} item={item} chat={chat} open={props.preferThinking} />
        ))}
        {turn.end === null && <Doing turn={turn} />}
        {turn.error !== null && (
          <Problem
            problem={turn.error}
            onRetry={turn.replaced ? undefined : () => actions.resend(turn)}
            onContinue={
              turn.replaced || turn.items.length === 0
                ? undefined
                : () => actions.resend(turn, { text: trans.__('Go on.') })
            }
          />
        )}
        {turn.end === 'stopped' && !turn.replaced && <Stopped turn={turn} actions={actions} />}
        {turn.end === 'done' && turn.plans && !turn.replaced && (
          <Plan turn={turn} actions={actions} />
        )}
        {turn.end !== null && <Changes turn={turn} chat={chat} />}
        {props.showCost && turn.usage !== null && turn.end !== null && <Cost turn={turn} />}
      </div>
    </div>
  );
});

function Part({ item, chat, open }: { item: Item; chat: ChatModel; open: boolean }): JSX.Element {
  const { trans } = useDesk();
  switch (item.kind) {
    case 'text':
      return <Markdown text={item.text} />;
    case 'thinking':
      return (
        <details className="tk-Thinking" open={open}>
          <summary>{trans.__('Thought')}</summary>
          <div className="tk-Thinking-text">{item.text}</div>
        </details>
      );
    case 'notice':
      return <div className="tk-Notice">{item.text}</div>;
    case 'call':
      return <CallCard call={item} chat={chat} />;
  }
}

function Doing({ turn }: { turn: ITurn }): JSX.Element {
  const { trans } = useDesk();
  return (
    <div className="tk-Doing">
      <span className="tk-Dot" />
      {doing(turn, trans)}
    </div>
  );
}

/** A message that waits for the one before it, or that was taken back while it did. */
function Queued({ turn, actions }: { turn: ITurn; actions: ITurnActions }): JSX.Element {
  const { trans } = useDesk();
  return (
    <div className="tk-Ending">
      <span className="tk-Doing">
        {isUnsent(turn) ? trans.__('Not sent.') : trans.__('Waits for the message before it')}
      </span>
      {isUnsent(turn) ? (
        <Button onClick={() => actions.resend(turn)}>{trans.__('Send')}</Button>
      ) : (
        <Button onClick={() => actions.withdraw(turn)}>{trans.__('Remove')}</Button>
      )}
    </div>
  );
}

function Stopped({ turn, actions }: { turn: ITurn; actions: ITurnActions }): JSX.Element {
  const { trans } = useDesk();
  return (
    <div className="tk-Ending">
      <span>{trans.__('Stopped. What was done stays.')}</span>
      <Button onClick={() => actions.resend(turn, { text: trans.__('Go on.') })}>
        {trans.__('Continue')}
      </Button>
      <Button onClick={() => actions.resend(turn)}>{trans.__('Retry')}</Button>
    </div>
  );
}

/** A plan is carried out when the person says so. */
function Plan({ turn, actions }: { turn: ITurn; actions: ITurnActions }): JSX.Element {
  const { trans } = useDesk();
  return (
    <div className="tk-Ending">
      <span>{trans.__('A plan: nothing was changed.')}</span>
      <Button primary onClick={() => actions.approve(turn, 'edit')}>
        {trans.__('Approve')}
      </Button>
      <Button onClick={() => actions.approve(turn, 'ask')}>
        {trans.__('Approve, but ask each time')}
      </Button>
      <Button onClick={() => actions.revise(turn)}>{trans.__('Change the plan…')}</Button>
    </div>
  );
}

function Cost({ turn }: { turn: ITurn }): JSX.Element | null {
  const { trans } = useDesk();
  const { usage } = turn;
  if (usage === null) {
    return null;
  }
  const parts = [
    trans.__(
      '%1 in',
      tokens(usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens)
    ),
    trans.__('%1 out', tokens(usage.output_tokens)),
    ...(usage.cost_usd === null ? [] : [dollars(usage.cost_usd)]),
    duration(usage.seconds)
  ];
  return <div className="tk-Cost">{parts.join(' · ')}</div>;
}

/** What stays the same of an item while the turn goes on: a card that was opened stays open. */
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

function lastWords(turn: ITurn): string {
  return turn.items.flatMap(item => (item.kind === 'text' ? [item.text] : [])).join('\n\n');
}
