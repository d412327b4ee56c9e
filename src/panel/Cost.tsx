import type { JSX } from 'react';

import { dollars, duration, tokens } from '../chat/describe';
import type { ITurn } from '../state/chat';
import { useServices } from './services';

/** The tokens, cost and duration of a turn; nothing while they are unknown. */
export function Cost({ turn }: { turn: ITurn }): JSX.Element | null {
  const { trans } = useServices();
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
