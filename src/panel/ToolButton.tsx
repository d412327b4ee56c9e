import type { LabIcon } from '@jupyterlab/ui-components';
import type { JSX } from 'react';

interface IProps {
  icon: LabIcon;
  /** Its accessible name, which is also its tooltip. */
  label: string;
  onClick: () => void;
  disabled?: boolean;
  pressed?: boolean;
}

/** An icon button. */
export function ToolButton({ icon, label, onClick, disabled, pressed }: IProps): JSX.Element {
  return (
    <button
      type="button"
      className="tk-ToolButton"
      aria-label={label}
      aria-pressed={pressed}
      title={label}
      disabled={disabled}
      onClick={onClick}
    >
      <icon.react tag="span" width="16px" height="16px" />
    </button>
  );
}
