// An answer of the server that takes a while: asked when what it is about changes, and again on request.
import { call } from "../api.js";
import { html, useCallback, useEffect, useState } from "../html.js";

// const found = useAnswer("waiting", "explain", { name }); found has answer, problem, busy and again().
// With a body of null nothing is asked. With `keep` the last answer is shown until there is another.
export function useAnswer(view, name, body, { keep = false } = {}) {
  const text = body === null ? null : JSON.stringify(body);
  const [found, setFound] = useState({ answer: null, problem: "", busy: text !== null });
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (text === null) {
      setFound({ answer: null, problem: "", busy: false });
      return undefined;
    }
    let current = true;
    setFound((before) => ({ ...before, problem: "", busy: true }));
    call(view, name, JSON.parse(text)).then(
      (answer) => current && setFound({ answer, problem: "", busy: false }),
      (error) => current && setFound((before) => ({ answer: keep ? before.answer : null, problem: error.message, busy: false })),
    );
    return () => { current = false; };
  }, [view, name, text, round]);
  // What was answered about something else is not shown.
  useEffect(() => { if (!keep) setFound((before) => ({ ...before, answer: null })); }, [view, name, text]);
  const again = useCallback(() => setRound((before) => before + 1), []);
  return { ...found, again };
}

// Shows that it is being worked out, or why not, or the children.
export function Answer({ found, busy, children }) {
  if (found.problem) return html`<p role="alert" class="failure">${found.problem}</p>`;
  if (!found.answer) return html`<p class="soft working" role="status">${found.busy ? busy : ""}</p>`;
  return children(found.answer);
}
