import { useState } from 'react';
import type { JSX } from 'react';

import { tokens } from '../chat/describe';
import { isBusy, type ITurn } from '../state/chat';
import { useServices } from './services';

/** The share of the context, in percent, from which the person is warned. */
const NEARLY_FULL = 80;

export interface IContextMeterProps {
  turns: readonly ITurn[];
}

/** How much of the model's context the chat takes, with a button to compact the chat. */
export function ContextMeter({ turns }: IContextMeterProps): JSX.Element | null {
  const { controller, trans } = useServices();
  const [sending, setSending] = useState(false);
  const usage = turns.findLast(turn => !turn.replaced && turn.usage?.context_tokens != null)?.usage;
  if (usage?.context_tokens == null) {
    return null;
  }
  const { context_tokens: used, context_window: size } = usage;
  const percent = size == null ? null : Math.min(100, Math.round((used / size) * 100));
  const full = percent !== null && percent >= NEARLY_FULL;
  const said =
    percent === null || size == null
      ? trans.__('The chat takes %1 tokens of the model’s context', tokens(used))
      : trans.__(
          '%1% of the model’s context (%2 of %3 tokens)',
          percent,
          tokens(used),
          tokens(size)
        );
  const advice = full ? ` ${trans.__('Compact the chat, or start another one.')}` : '';
  // A pending plan would be passed over by any message.
  const canCompact = usage.compacts && !isBusy({ turns }) && !turns.some(turn => turn.plans);
  const onCompact = async (): Promise<void> => {
    setSending(true);
    try {
      await controller.compact(trans.__('Compact the chat'));
    } finally {
      setSending(false);
    }
  };
  return (
    <span className={full ? 'tk-Context tk-mod-full' : 'tk-Context'}>
      {percent === null ? (
        <span title={said} aria-label={said} role="img">
          {trans.__('Context: %1', tokens(used))}
        </span>
      ) : (
        <span
          role="meter"
          aria-label={trans.__('Context')}
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={percent}
          aria-valuetext={said + advice}
          title={said + advice}
        >
          <span className="tk-Context-bar" aria-hidden="true">
            <span style={{ width: `${percent}%` }} />
          </span>
          {trans.__('%1%', percent)}
        </span>
      )}
      <span role="status" className="tk-Announced">
        {advice}
      </span>
      {canCompact && (
        <button
          type="button"
          className="tk-Context-button"
          disabled={sending}
          title={trans.__('Replace the earlier messages by a summary, which takes less context')}
          onClick={() => void onCompact()}
        >
          {trans.__('Compact')}
        </button>
      )}
    </span>
  );
}
