import { useState } from 'react';
import type { JSX, ReactNode } from 'react';

interface IProps {
  className?: string;
  /** What is in sight of it while it is closed. */
  summary: ReactNode;
  /** What it opens to: rendered once it was opened, not before. */
  children: () => ReactNode;
  /** Whether it opens by itself; a person may do otherwise. */
  open?: boolean;
}

/** Something that a person opens: a long chat has hundreds, of which few ever are. */
export function Fold({ className = '', summary, children, open = false }: IProps): JSX.Element {
  const [wasOpen, setWasOpen] = useState(false);
  return (
    <details
      className={className}
      open={open}
      onToggle={({ currentTarget }) => setWasOpen(wasOpen || currentTarget.open)}
    >
      <summary>{summary}</summary>
      {(open || wasOpen) && children()}
    </details>
  );
}
