// The state of a device as a coloured mark and a word.
import { html } from "../html.js";
import { STATES } from "./colours.js";
import { figure } from "./format.js";

export const State = ({ name }) => html`<span class="state"><svg width="10" height="10" aria-hidden="true"><rect width="10"
  height="10" rx="2" fill=${STATES[name]?.colour || STATES.unknown.colour} /></svg>${name}</span>`;

export const statesTotal = (states) => Object.values(states).reduce((sum, each) => sum + each, 0);
export const statesParts = (states) => Object.entries(STATES)
  .map(([name, { colour, title }]) => ({ value: states[name] || 0, colour, title }));
export const statesText = (states) => statesParts(states).filter((part) => part.value)
  .map((part) => `${figure(part.value)} ${part.title}`).join(", ");
