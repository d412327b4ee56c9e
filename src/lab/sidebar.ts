import type { Widget } from '@lumino/widgets';

/** The id of the stacked panel of JupyterLab's right sidebar. */
export const RIGHT_SIDEBAR = 'jp-right-stack';

/** Whether a panel is in the right sidebar. */
export const isInRightSidebar = (panel: Widget): boolean => panel.parent?.id === RIGHT_SIDEBAR;
