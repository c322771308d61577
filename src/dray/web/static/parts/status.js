// Says whether what is shown is live, for eyes and for screen readers.
import { html } from "../html.js";

const ended = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);

function LiveStatus({ state, problem }) {
  const text = { live: "Live", opening: "Loading…", stale: `Not current: ${ended(problem)}`, waiting: `Not current: ${ended(problem)} Trying again.` }[state];
  return html`<span class=${`live live-${state}`} role="status">${text}</span>`;
}

// The head of a view: title, filters, and whether it is live.
export function ViewHead({ title, state, problem, children }) {
  return html`<div class="view-head"><h1>${title}</h1><${LiveStatus} state=${state} problem=${problem} />
    <div class="tools">${children}</div></div>`;
}
