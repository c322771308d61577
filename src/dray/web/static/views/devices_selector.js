// A class and a CEL selector: what they match, why not the others, and how many devices can be had at once.
import { html, useId } from "../html.js";
import { useAnswer, useFresh } from "../parts/answer.js";
import { Choice } from "../parts/filter.js";
import { count, figure } from "../parts/format.js";
import { useLater } from "../parts/later.js";

// The answer of the server for a class and a selector. It is asked again when the devices change, but not too often.
export function useMatch(question, data) {
  const asked = JSON.parse(useLater(JSON.stringify(question), 250));
  const wanted = Boolean(asked.class || asked.selector);
  const found = useAnswer("devices", "match", wanted && data ? asked : null, { keep: true });
  useFresh(found.again, data?.models, data?.classes);
  return { answer: found.problem ? null : found.answer, failure: found.problem, stale: found.stale, wanted };
}

const NODES = (nodes) => Object.entries(nodes).sort(([first], [second]) => second - first)
  .map(([devices, number]) => `${devices} on ${count(number, "node")}`).join(", ");

function Room({ room, certain }) {
  if (!room) return null;
  if (room.fault) return html`<p class="failure">A claim with this selector fails: ${room.fault}</p>`;
  const more = room.complete ? "" : "at least ";
  return html`<section class="room" aria-label="How many at once"><h3>How many could I get at once?</h3>
    ${room.total === 0 ? html`<p>None: all that match are in use, tainted or blocked.</p>` : html`
      <p><b class="figure">${room.most}</b> with one claim, on ${room.node}${room.most === room.limit ? " (a claim has no more)" : ""}</p>
      <p><b class="figure">${more}${figure(room.total)}</b> on all nodes together: ${NODES(room.nodes)}</p>`}
    <p class="soft">Now, by devices alone: quota, CPU and memory of pods are not counted.${certain ? "" : " You do not see all claims, so it may be fewer."}</p></section>`;
}

function Others({ others, total }) {
  const left = others.reduce((sum, each) => sum + each.count, 0);
  if (!left) return null;
  return html`<details class="others" open><summary>Why ${figure(left)} of ${count(total, "device")} do not match</summary>
    <ul>${others.map((each, place) => html`<li key=${place} class=${each.error ? "error" : ""}>
      <b>${figure(each.count)}</b><div><code>${each.condition}</code>
      <p>${each.error ? "fails: " : ""}${each.reason}</p>
      <p class="soft">${each.examples.join(", ")}${each.count > each.examples.length ? " …" : ""}</p></div></li>`)}</ul></details>`;
}

function Matches({ match: { answer, failure, stale } }) {
  if (failure) return html`<p class="failure">${failure}</p>`;
  if (!answer) return html`<p class="soft working" role="status">Asking every device…</p>`;
  if (answer.problem.text) {
    return html`<div class="failure"><p>Line ${answer.problem.line}, column ${answer.problem.column}: ${answer.problem.text}</p>
      ${answer.problem.excerpt && html`<pre tabindex="0">${answer.problem.excerpt}</pre>`}</div>`;
  }
  return html`<div class="answer">
    ${stale && html`<p class="soft working others" role="status">Asking every device…</p>`}
    <div><p class="matched"><b class="figure">${figure(answer.count)}</b> of ${count(answer.total, "device")} match</p>
      <p class="soft">Worst-case cost ${figure(answer.cost)} of ${figure(answer.costLimit)}
        ${answer.cost > answer.costLimit && ": an API server refuses this selector"}</p>
      ${answer.complete ? "" : html`<p class="failure">This selector takes too long for so many devices; not all were looked at.</p>`}</div>
    <${Room} room=${answer.room} certain=${answer.seesAllClaims} />
    <${Others} others=${answer.others} total=${answer.total} /></div>`;
}

export function Selector({ match, classes, selector, onSelector }) {
  const id = useId();
  return html`<section class="card selector" aria-label="Selector"><div class="selector-line">
      <${Choice} label="Class" param="class" options=${classes} />
      <label for=${id}>CEL selector</label>
      <textarea id=${id} rows="2" spellcheck=${false} value=${selector} placeholder=${'device.driver == "gpu.nvidia.com"'}
        aria-describedby=${`${id}-answer`} onInput=${(event) => onSelector(event.target.value)} />
    </div>
    <div id=${`${id}-answer`} aria-live="polite">${match.wanted && html`<${Matches} match=${match} />`}</div>
  </section>`;
}
