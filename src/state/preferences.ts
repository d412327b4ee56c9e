import type { Mode } from '../api/events';

/** The settings of the panel, described in `schema/panel.json`. */
export interface IPreferences {
  mode: Mode;
  model: string;
  sendWith: 'Enter' | 'Accel Enter';
  activeCell: boolean;
  starters: boolean;
  showThinking: boolean;
  notify: boolean;
  notifyAfter: number;
}

export const DEFAULTS: IPreferences = {
  mode: 'ask',
  model: '',
  sendWith: 'Enter',
  activeCell: true,
  starters: true,
  showThinking: false,
  notify: true,
  notifyAfter: 30
};
