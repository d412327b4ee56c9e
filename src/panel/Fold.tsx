import { useState } from 'react';
import type { JSX, ReactNode } from 'react';

interface IProps {
  className?: string;
  /** Shown while it is closed, too. */
  summary: ReactNode;
  /** Its content, which is rendered when it is first opened. */
  children: () => ReactNode;
  /** Whether it is open by default. */
  open?: boolean;
}

/** A `details` element that renders its content lazily, since a long chat has hundreds of them. */
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
