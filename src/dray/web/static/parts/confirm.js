// A question before something is changed. The dialog element keeps the focus inside and closes with Escape.
import { html, useEffect, useRef, useState } from "../html.js";

// <${Confirm} title="Delete pod a/b?" action="Delete" danger=${true} onConfirm=${async () => call(...)} onClose=${...}>
//   what will happen </>. onConfirm may throw; the dialog shows the message and stays open. It can be confirmed once
//   it is `ready`.
export function Confirm({ title, action, danger, ready = true, onConfirm, onClose, children }) {
  const dialog = useRef(null);
  const [failure, setFailure] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => { dialog.current.showModal(); }, []);
  const confirm = async () => {
    setBusy(true);
    try {
      await onConfirm();
      onClose();
    } catch (error) {
      setFailure(error.message);
      setBusy(false);
    }
  };
  return html`<dialog ref=${dialog} aria-label=${title} onClose=${onClose}>
    <h2>${title}</h2>
    ${children}
    <p role="alert" class="failure">${failure}</p>
    <div class="buttons">
      <button type="button" autofocus onClick=${() => dialog.current.close()}>Cancel</button>
      <button type="button" class=${danger ? "danger" : "primary"} disabled=${busy || !ready} onClick=${confirm}>${action}</button>
    </div>
  </dialog>`;
}
