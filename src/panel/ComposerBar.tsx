import { runIcon, stopIcon } from '@jupyterlab/ui-components';
import type { JSX } from 'react';

import { type Mode, MODES } from '../api/events';
import { dollars, duration, tokens } from '../chat/describe';
import { draftOf, type IPanelState, modelOf, modeOf, offerOf } from '../state/app';
import { isBusy, type ITurn, total } from '../state/chat';
import { ToolButton } from './controls';
import { useChat, useSelector, useServices } from './services';

interface IProps {
  panel: IPanelState;
}

/** The bar below the message box: mode, model, and figures. */
export function ComposerBar({ panel }: IProps): JSX.Element {
  const { controller, trans } = useServices();
  const mode = useSelector(state => modeOf(state, panel));
  const chosen = useSelector(state => modelOf(state, panel));
  const usual = useSelector(state => state.models);
  const offer = useSelector(state => offerOf(state, panel));
  const turns = useChat(panel.chat, ({ turns }) => turns);
  const names: Record<Mode, [string, string]> = {
    plan: [trans.__('Plan'), trans.__('Read only, and answer with a plan')],
    ask: [trans.__('Ask'), trans.__('Ask before changing or running anything')],
    edit: [trans.__('Edit'), trans.__('Change cells, and ask before running code')],
    auto: [trans.__('Auto'), trans.__('Change and run without asking')]
  };
  const models = usual?.models ?? [];
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
      {(offer?.settings ?? []).map(({ id, name, value, choices }) => (
        <select
          key={id}
          className="tk-Select"
          aria-label={name}
          title={name}
          value={panel.options[id] ?? value}
          onChange={event => controller.choose({ options: { [id]: event.target.value } })}
        >
          {choices.map(choice => (
            <option key={choice.value} value={choice.value}>
              {choice.name}
            </option>
          ))}
        </select>
      ))}
      <Figures turns={turns} />
    </div>
  );
}

/** The buttons to send a message, and to stop what runs, in the message box. */
export function SendButtons({ panel }: IProps): JSX.Element {
  const { controller, trans } = useServices();
  const busy = useChat(panel.chat, isBusy);
  const writes = useSelector(state => draftOf(state, panel).text.trim() !== '');
  return (
    <span className="tk-Send">
      {busy && (
        <ToolButton
          icon={stopIcon}
          label={trans.__('Stop')}
          onClick={() => void controller.chat.stop()}
        />
      )}
      {(!busy || writes) && (
        <ToolButton
          className="tk-ToolButton tk-mod-accept"
          icon={runIcon}
          label={busy ? trans.__('Queue') : trans.__('Send')}
          disabled={!writes}
          onClick={() => void controller.submit()}
        />
      )}
    </span>
  );
}

/** Tokens and cost of the chat, if any, which open to the tokens of the last answer. */
function Figures({ turns }: { turns: readonly ITurn[] }): JSX.Element | null {
  const { trans } = useServices();
  const { tokens: spent, cost } = total({ turns });
  const last = turns.findLast(turn => !turn.replaced && turn.usage !== null)?.usage;
  if (last == null || spent === 0) {
    return null;
  }
  const input = last.input_tokens + last.cache_read_tokens + last.cache_write_tokens;
  const price = cost === null ? [] : [dollars(cost)];
  return (
    <details className="tk-Figures">
      <summary title={trans.__('Tokens and cost')}>
        {[trans.__('%1 tokens', tokens(spent)), ...price].join(' · ')}
      </summary>
      <div className="tk-Figures-box">
        {trans.__(
          'Last answer: %1 in · %2 out · %3',
          tokens(input),
          tokens(last.output_tokens),
          duration(last.seconds)
        )}
      </div>
    </details>
  );
}
