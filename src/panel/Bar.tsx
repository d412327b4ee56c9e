import { runIcon, stopIcon } from '@jupyterlab/ui-components';
import { useReducer } from 'react';
import type { JSX } from 'react';

import { type Mode, MODES } from '../api/events';
import { dollars, tokens } from '../chat/describe';
import { total } from '../chat/state';
import { useDesk, useSignal } from './desk';
import type { PanelModel } from './model';
import { ToolButton } from './ToolButton';

/** Mode, model, what it has cost, and the way to send or to stop. */
export function Bar({ model }: { model: PanelModel }): JSX.Element {
  const { chat, draft, mode } = model;
  const { chats, preferences, trans } = useDesk();
  useSignal(chats.changed);
  // React puts the old value back where a choice is not rendered at once: two quick keys were one.
  const [, renderNow] = useReducer((times: number) => times + 1, 0);
  const choose = (choice: { mode?: Mode; answerer?: string }): void => {
    model.choose(choice);
    renderNow();
  };
  const names: Record<Mode, [string, string]> = {
    plan: [trans.__('Plan'), trans.__('Reads, and answers with a plan')],
    ask: [trans.__('Ask'), trans.__('Asks before it changes or runs anything')],
    edit: [trans.__('Edit'), trans.__('Changes cells, and asks before it runs code')],
    auto: [trans.__('Auto'), trans.__('Changes and runs without asking')]
  };
  const models = chats.models?.models ?? [];
  const { tokens: count, cost } = total(chat.state);
  const writes = draft.text.trim() !== '';
  return (
    <div className="tk-Bar">
      <select
        className="tk-Select"
        aria-label={trans.__('Mode')}
        title={names[mode][1]}
        value={mode}
        onChange={event => choose({ mode: event.target.value as Mode })}
      >
        {MODES.map(each => (
          <option key={each} value={each} title={names[each][1]}>
            {names[each][0]}
          </option>
        ))}
      </select>
      {models.length > 0 && (
        <select
          className="tk-Select"
          aria-label={trans.__('Model')}
          title={chats.models?.label}
          value={model.answerer || chats.models?.model}
          onChange={event => choose({ answerer: event.target.value })}
        >
          {models.map(each => (
            <option key={each}>{each}</option>
          ))}
        </select>
      )}
      <span className="tk-Bar-cost">
        {preferences.now.showCost && count > 0
          ? [tokens(count), ...(cost === null ? [] : [dollars(cost)])].join(' · ')
          : ''}
      </span>
      {chat.busy && (
        <ToolButton icon={stopIcon} label={trans.__('Stop')} onClick={() => void chat.stop()} />
      )}
      {(!chat.busy || writes) && (
        <ToolButton
          icon={runIcon}
          label={chat.busy ? trans.__('Send after this') : trans.__('Send')}
          disabled={!writes}
          onClick={() => void model.submit()}
        />
      )}
    </div>
  );
}
