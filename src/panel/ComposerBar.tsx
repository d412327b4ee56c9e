import { runIcon, stopIcon } from '@jupyterlab/ui-components';
import { useState } from 'react';
import type { JSX } from 'react';

import { type Mode, MODES } from '../api/events';
import { dollars, duration, tokens } from '../chat/describe';
import { type IPanelState, modelOf, modeOf } from '../state/app';
import { isBusy, type ITurn, total } from '../state/chat';
import { Button, ToolButton } from './controls';
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
      <Figures turns={turns} />
    </div>
  );
}

/** The buttons to send a message, and to stop what runs, in the message box. */
export function SendButtons({ panel }: IProps): JSX.Element {
  const { controller, trans } = useServices();
  const busy = useChat(panel.chat, isBusy);
  const writes = panel.compose.draft.text.trim() !== '';
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

/** The share of the context, in percent, from which the person is warned. */
const NEARLY_FULL = 80;

/** Tokens, cost and the model's context, which opens to the figures; nothing before the first answer. */
function Figures({ turns }: { turns: readonly ITurn[] }): JSX.Element | null {
  const { controller, trans } = useServices();
  const [sending, setSending] = useState(false);
  const { tokens: spent, cost } = total({ turns });
  const last = turns.findLast(turn => !turn.replaced && turn.usage !== null)?.usage;
  const context = turns.findLast(turn => !turn.replaced && turn.usage?.context_tokens != null);
  if (last == null) {
    return null;
  }
  const { context_tokens: used, context_window: size, compacts } = context?.usage ?? last;
  const percent =
    used == null || size == null ? null : Math.min(100, Math.round((used / size) * 100));
  const isFull = percent !== null && percent >= NEARLY_FULL;
  const advice = isFull ? trans.__('Compact the chat, or start another one.') : '';
  const input = last.input_tokens + last.cache_read_tokens + last.cache_write_tokens;
  const rows: [string, string][] = [
    [
      trans.__('Context'),
      used == null
        ? ''
        : percent === null || size == null
          ? trans.__('%1 tokens', tokens(used))
          : trans.__('%1% (%2 of %3 tokens)', percent, tokens(used), tokens(size))
    ],
    [
      trans.__('This chat'),
      [trans.__('%1 tokens', tokens(spent)), ...(cost === null ? [] : [dollars(cost)])].join(' · ')
    ],
    [
      trans.__('Last answer'),
      [
        trans.__('%1 in', tokens(input)),
        trans.__('%1 out', tokens(last.output_tokens)),
        ...(last.cost_usd === null ? [] : [dollars(last.cost_usd)]),
        duration(last.seconds)
      ].join(' · ')
    ]
  ];
  const onCompact = async (): Promise<void> => {
    setSending(true);
    try {
      await controller.compact(trans.__('Compact the chat'));
    } finally {
      setSending(false);
    }
  };
  // A pending plan would be passed over by any message.
  const canCompact = compacts && !isBusy({ turns }) && !turns.some(turn => turn.plans);
  return (
    <details className={isFull ? 'tk-Figures tk-mod-full' : 'tk-Figures'}>
      <summary title={trans.__('Tokens, cost and context')}>
        {percent === null ? trans.__('%1 tokens', tokens(spent)) : trans.__('Context %1%', percent)}
      </summary>
      <div className="tk-Figures-box">
        <dl>
          {rows
            .filter(([, value]) => value !== '')
            .map(([name, value]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{value}</dd>
              </div>
            ))}
        </dl>
        <span role="status">{advice}</span>
        {canCompact && (
          <Button
            disabled={sending}
            title={trans.__('Summarize earlier messages to free context')}
            onClick={() => void onCompact()}
          >
            {trans.__('Compact')}
          </Button>
        )}
      </div>
    </details>
  );
}
