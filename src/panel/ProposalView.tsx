import type { JSX } from 'react';
import { useMemo } from 'react';

import type { Proposal, ProposalStep } from '../api/events';
import { stepLines } from '../common/diff';
import { visible } from '../common/visible';
import { CodeLines } from './CodeLines';
import { useServices } from './services';

/** Matches letters that are written from right to left, and change the order of what is between them. */
const FROM_THE_RIGHT =
  /[\p{sc=Adlm}\p{sc=Arab}\p{sc=Hebr}\p{sc=Nkoo}\p{sc=Rohg}\p{sc=Syrc}\p{sc=Thaa}]/u;

/** All steps of a proposed call. Nothing is collapsed, and code is verbatim. */
export function ProposalView({ proposal }: { proposal: Proposal }): JSX.Element {
  const { trans } = useServices();
  return (
    <>
      {proposal.steps.length === 0 && (
        <div className="tk-Step-title">{visible(proposal.title)}</div>
      )}
      {proposal.steps.map((step, place) => (
        <Step key={place} step={step} notebook={proposal.notebook} />
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

interface IStepProps {
  step: ProposalStep;
  /** The notebook that it changes. */
  notebook: string | null;
}

function Step({ step, notebook }: IStepProps): JSX.Element {
  const { notebook: context, trans } = useServices();
  const lines = useMemo(() => stepLines(step), [step]);
  return (
    <div className={step.runs ? 'tk-Step tk-mod-runs' : 'tk-Step'}>
      {step.title !== '' && (
        <div className="tk-Step-title">
          {step.runs && <span className="tk-Step-runs">{trans.__('Runs')}</span>}
          {visible(step.title)}
        </div>
      )}
      {lines.length > 0 && (
        <CodeLines lines={lines} mime={context.mimeOf(notebook, typeOf(step))} whole />
      )}
      {lines.some(({ text }) => FROM_THE_RIGHT.test(text)) && (
        <div className="tk-Notice">
          {trans.__(
            'Some letters are written from right to left: what is between them may be in another order than it looks.'
          )}
        </div>
      )}
    </div>
  );
}

/** Return the type of the cell that a step changes; empty for none. */
function typeOf({ runs, cell, cell_type }: ProposalStep): string {
  return runs ? 'code' : (cell?.type ?? cell_type ?? '');
}
