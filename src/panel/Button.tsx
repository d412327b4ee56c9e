import type { ButtonHTMLAttributes, JSX } from 'react';

/** A text button. `primary` is for the default action. */
export function Button({
  primary = false,
  ...attributes
}: ButtonHTMLAttributes<HTMLButtonElement> & { primary?: boolean }): JSX.Element {
  return (
    <button
      type="button"
      className={primary ? 'tk-Button tk-mod-accept' : 'tk-Button'}
      {...attributes}
    />
  );
}
