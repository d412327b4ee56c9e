import type { JSX } from 'react';
import { useMemo } from 'react';

import type { IProposal, IProposalStep } from '../api/events';
import { stepLines } from '../parts/diff';
import { Lines } from '../parts/Lines';
import { visible } from '../parts/visible';
import type { IQuestion } from '../chat/state';
import { useDesk } from './desk';

/** All that a call would do, step by step: nothing is folded, and what runs is verbatim. */
export function Proposal({ question }: { question: IQuestion }): JSX.Element {
  const { trans } = useDesk();
  const proposal = useMemo(() => proposalOf(question), [question]);
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
          {trans.__('%1 more characters are not shown.', proposal.omitted.toLocaleString())}
        </div>
      )}
    </>
  );
}

function Step({ step }: { step: IProposalStep }): JSX.Element {
  const { trans } = useDesk();
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

/** A question's proposal; the plain text of one that has none, all lines alike. */
function proposalOf({ effect, notebook, preview, proposal }: IQuestion): IProposal {
  if (proposal != null) {
    return proposal;
  }
  const lines = preview.split('\n').map(text => ({ mark: ' ' as const, text }));
  const step = { kind: 'code', title: '', cell: null, to: null, runs: effect === 'EXECUTE', lines };
  return { notebook, kernel: null, title: '', steps: [step], omitted: 0 };
}
