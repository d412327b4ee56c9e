import { runIcon, stopIcon } from '@jupyterlab/ui-components';
import { type JSX, Suspense } from 'react';

import { type Mode, MODES } from '../api/events';
import { dollars, tokens } from '../chat/describe';
import { type IPanelState, modelOf, modeOf } from '../state/app';
import { isBusy, total } from '../state/chat';
import { useChat, useSelector, useServices } from './services';
import { ContextMeter } from './later';
import { ToolButton } from './ToolButton';

interface IProps {
  panel: IPanelState;
}

/** The bar below the message box: mode, model, cost, and the buttons to send and stop. */
export function ComposerBar({ panel }: IProps): JSX.Element {
  const { controller, trans } = useServices();
  const mode = useSelector(state => modeOf(state, panel));
  const chosen = useSelector(state => modelOf(state, panel));
  const usual = useSelector(state => state.models);
  const showCost = useSelector(state => state.preferences.showCost);
  const turns = useChat(panel.chat, ({ turns }) => turns);
  const busy = isBusy({ turns });
  const names: Record<Mode, [string, string]> = {
    plan: [trans.__('Plan'), trans.__('Read only, and answer with a plan')],
    ask: [trans.__('Ask'), trans.__('Ask before changing or running anything')],
    edit: [trans.__('Edit'), trans.__('Change cells, and ask before running code')],
    auto: [trans.__('Auto'), trans.__('Change and run without asking')]
  };
  const models = usual?.models ?? [];
  const { tokens: count, cost } = total({ turns });
  const writes = panel.compose.draft.text.trim() !== '';
  return (
    <div className="tk-Bar">
      <select
        className="tk-Select"
        aria-label={trans.__('Mode')}
        title={names[mode][1]}
        value={mode}
        onChange={event => controller.choose({ mode: event.target.value as Mode })}
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
          title={usual?.label}
          value={chosen || usual?.model}
          onChange={event => controller.choose({ model: event.target.value })}
        >
          {models.map(each => (
            <option key={each} value={each}>
              {usual?.agents?.[each] ?? each}
            </option>
          ))}
        </select>
      )}
      <span className="tk-Bar-cost">
        {showCost && count > 0
          ? [tokens(count), ...(cost === null ? [] : [dollars(cost)])].join(' · ')
          : ''}
      </span>
      {turns.some(turn => turn.usage?.context_tokens != null) && (
        <Suspense fallback={null}>
          <ContextMeter turns={turns} />
        </Suspense>
      )}
      {busy && (
        <ToolButton
          icon={stopIcon}
          label={trans.__('Stop')}
          onClick={() => void controller.chat.stop()}
        />
      )}
      {(!busy || writes) && (
        <ToolButton
          icon={runIcon}
          label={busy ? trans.__('Queue') : trans.__('Send')}
          disabled={!writes}
          onClick={() => void controller.submit()}
        />
      )}
    </div>
  );
}
