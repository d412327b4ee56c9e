import type { JSX } from 'react';
import { useMemo } from 'react';

import type { Proposal, ProposalStep } from '../api/events';
import { stepLines } from '../parts/diff';
import { Lines } from '../parts/Lines';
import { visible } from '../parts/visible';
import { useServices } from './services';

/** All that a call would do, step by step: nothing is folded, and what runs is verbatim. */
export function ProposalView({ proposal }: { proposal: Proposal }): JSX.Element {
  const { trans } = useServices();
  return (
    <>
      {proposal.steps.length === 0 && (
        <div className="tk-Step-title">{visible(proposal.title)}</div>
      )}
      {proposal.steps.map((step, place) => (
        <Step key={place} step={step} />
      ))}
      {proposal.omitted > 0 && (
        <div className="tk-Question-problem">
          {trans._n(
            '%2 more character is not shown.',
            '%2 more characters are not shown.',
            proposal.omitted,
            proposal.omitted.toLocaleString()
          )}
        </div>
      )}
    </>
  );
}

function Step({ step }: { step: ProposalStep }): JSX.Element {
  const { trans } = useServices();
  const lines = useMemo(() => stepLines(step), [step]);
  return (
    <div className={step.runs ? 'tk-Step tk-mod-runs' : 'tk-Step'}>
      {step.title !== '' && (
        <div className="tk-Step-title">
          {step.runs && <span className="tk-Step-runs">{trans.__('Runs')}</span>}
          {visible(step.title)}
        </div>
      )}
      {lines.length > 0 && <Lines lines={lines} trans={trans} whole />}
    </div>
  );
}
