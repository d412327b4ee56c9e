import { MenuSvg } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';

/** An item of a menu. */
export interface IMenuItem {
  label: string;
  /** The tooltip. */
  caption?: string;
  /** Whether it has a check mark, asked when the menu opens. */
  isToggled?: () => boolean;
  run: () => void;
}

/** Open a menu below a button, which gets the focus back. */
export function openMenu(button: HTMLElement, items: readonly IMenuItem[]): void {
  const commands = new CommandRegistry();
  const menu = new MenuSvg({ commands });
  items.forEach(({ label, caption = '', isToggled, run }, place) => {
    const command = String(place);
    const toggle = isToggled && { isToggleable: true, isToggled };
    commands.addCommand(command, {
      ...{ label, caption, execute: run, describedBy: { args: {} } },
      ...toggle
    });
    menu.addItem({ command });
  });
  // Before an item is run, which may move the focus elsewhere.
  menu.aboutToClose.connect(() => button.focus());
  const { left, bottom } = button.getBoundingClientRect();
  menu.open(left, bottom);
}
